"""The link between two sites, and its two directions."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from wan.programs import program

LEAST_QUEUE_B = 256 << 10


@dataclass(frozen=True)
class Figures:
    """What has passed in one direction since the beginning, or since `clear`.

    Packets that were delivered, and their bytes; packets that were lost at random, found the queue full, or came while
    the direction or their flow was cut; the most that waited in the queue. `mean_late_s` and `most_late_s` tell how
    much later than it should the emulator delivered: its error.
    """

    packets: int
    bytes: int
    lost: int
    overflowed: int
    cut: int
    most_queued_b: int
    mean_late_s: float
    most_late_s: float


@dataclass(frozen=True)
class Conditions:
    """How one direction is. `delay_s` is one way; `rate_bit_s` and `queue_b` None: no limit; `loss` is a fraction."""

    delay_s: float = 0.0
    rate_bit_s: float | None = None
    loss: float = 0.0
    queue_b: int | None = None


class DelayLine:
    """The program that carries the packets; obeys commands."""

    def __init__(self, owner: int, mtu: int, seed: int, machines: Sequence[int]):
        words = [str(program("delay_line")), str(owner), str(mtu), str(seed), *map(str, machines)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._turn = threading.Lock()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._answers = self._process.stdin, self._process.stdout
        if self._answers.readline() != "ready\n":
            raise RuntimeError(f"the delay line cannot be made: {self._process.communicate()[1].strip()}")

    def obey(self, command: str) -> list[str]:
        """Gives a command; returns the words of the answer.

        Raises:
            RuntimeError: it was refused, or the delay line has ended.
        """
        with self._turn:
            try:
                self._commands.write(command + "\n")
                self._commands.flush()
                answer = self._answers.readline().split()
            except BrokenPipeError:
                answer = []
        if answer[:1] != ["ok"]:
            raise RuntimeError(f"{command}: {' '.join(answer) or 'the delay line has ended'}")
        return answer[1:]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Direction:
    """What goes from one site to another."""

    def __init__(self, line: DelayLine, origin: int, target: int, conditions: Conditions):
        self._line = line
        self._ends = f"{origin} {target}"
        self.conditions = conditions
        self._tell()

    def set(
        self,
        *,
        delay_s: float | None = None,
        rate_bit_s: float | None = None,
        loss: float | None = None,
        queue_b: int | None = None,
    ) -> None:
        """Changes what is given from now on; what is on its way already is not touched."""
        given: dict[str, Any] = {"delay_s": delay_s, "rate_bit_s": rate_bit_s, "loss": loss, "queue_b": queue_b}
        self.conditions = replace(self.conditions, **{key: value for key, value in given.items() if value is not None})
        self._tell()

    def cut(self) -> None:
        """Drops everything from now on, also what is on its way."""
        self._line.obey(f"cut {self._ends}")

    def stall(self) -> None:
        """Holds everything, as far as the queue has room, until `mend`."""
        self._line.obey(f"stall {self._ends}")

    def mend(self) -> None:
        """Ends a cut or a stall."""
        self._line.obey(f"open {self._ends}")

    def cut_flow(self, port: int) -> None:
        """Drops what has this TCP port at either end: that of the side that dialled names one connection of many."""
        self._line.obey(f"flow {self._ends} {port} cut")

    def mend_flow(self, port: int) -> None:
        self._line.obey(f"flow {self._ends} {port} open")

    def figures(self) -> Figures:
        packets, size_b, lost, overflowed, cut, queued_b, mean_ns, most_ns = map(
            int, self._line.obey(f"figures {self._ends}")
        )
        return Figures(packets, size_b, lost, overflowed, cut, queued_b, mean_ns / 1e9, most_ns / 1e9)

    def clear(self) -> None:
        """Lets the figures begin anew."""
        self._line.obey(f"clear {self._ends}")

    def _tell(self) -> None:
        now = self.conditions
        queue_b = now.queue_b or 0
        self._line.obey(f"set {self._ends} {round(now.delay_s * 1e9)} {now.rate_bit_s or 0} {now.loss} {queue_b}")


class Link:
    """Both directions between two sites; what is done to it is done to both. `towards` has them apart."""

    def __init__(self, directions: dict[str, Direction]):
        self._directions = directions

    def towards(self, site: str) -> Direction:
        """The direction that ends at the site."""
        return self._directions[site]

    def set(
        self,
        *,
        rtt_s: float | None = None,
        rate_bit_s: float | None = None,
        loss: float | None = None,
        queue_b: int | None = None,
    ) -> None:
        """Changes what is given; half of the round trip is the delay of each direction."""
        delay_s = None if rtt_s is None else rtt_s / 2
        for each in self._directions.values():
            each.set(delay_s=delay_s, rate_bit_s=rate_bit_s, loss=loss, queue_b=queue_b)

    def cut(self) -> None:
        for each in self._directions.values():
            each.cut()

    def stall(self) -> None:
        for each in self._directions.values():
            each.stall()

    def mend(self) -> None:
        for each in self._directions.values():
            each.mend()

    def cut_flow(self, port: int) -> None:
        for each in self._directions.values():
            each.cut_flow(port)

    def mend_flow(self, port: int) -> None:
        for each in self._directions.values():
            each.mend_flow(port)

    def clear(self) -> None:
        for each in self._directions.values():
            each.clear()

    @contextmanager
    def severed(self) -> Iterator[None]:
        """Cut within the block."""
        self.cut()
        try:
            yield
        finally:
            self.mend()
