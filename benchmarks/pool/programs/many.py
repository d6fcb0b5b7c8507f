"""Very many readers in one process, each of which takes the objects that its selector chooses."""

import threading
import time

import ends

import xmml


class Taken:
    """What all of them have taken. Whoever takes the last object of a pass waits for the next pass."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.end = ends.End()
        self.passes = 0
        self.begin()

    def begin(self) -> None:
        self.count, self.steps, self.total = 0, 0, 0.0
        self.end.meet()
        self.processor_s = -time.process_time()

    def take(self, step: int, total: float) -> None:
        with self.lock:
            self.count += 1
            self.steps += step
            self.total += total
            if self.count == ends.EXPECTED:
                self.passes += 1
                if self.passes < ends.PASSES:
                    self.begin()
                else:
                    now, used = time.monotonic(), self.processor_s + time.process_time()
                    self.end.report(end=now, processor_s=used, count=self.count, steps=self.steps, total=self.total)


first = threading.Lock()
taken: list[Taken] = []


class Many(xmml.Submodel):
    """One of them."""

    def O_f(self) -> None:
        with first:
            if not taken:
                taken.append(Taken())
        for field in self.me.objects("fields"):
            taken[0].take(field["step"], float(field.data.sum()))
