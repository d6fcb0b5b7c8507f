"""What is measured: objects that go from writers to readers, of which each reader wants some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness import figures

#: The fields of a forecast at three resolutions.
FIELDS = (804 * 1024, 4_613_736, 15 * 1024 * 1024)
SMALL = 8


@dataclass(frozen=True)
class Case:
    """Objects with twelve attributes; the attribute `param` takes `params` values, one after the other.

    Attributes:
        name: the head of its column.
        size_b: bytes of a payload, which is an array of float64.
        pairs: how many writers there are, each with one reader in a process of its own.
        over: "host", the fastest way of the peer between processes of one host, or "tcp" of the loopback device.
        flushed: each object is under way before the next one is written.
        copied: the reader has the payload in memory of its own; otherwise it sums every element where it lies.
        params: how many values the attribute `param` takes.
        wanted: a reader wants so many of these.
        readers: each wanted value has a reader of its own; all of them are in one process.
    """

    name: str
    size_b: int
    pairs: int = 2
    over: str = "host"
    flushed: bool = False
    copied: bool = False
    params: int = 10
    wanted: int = 10
    readers: bool = False

    def received(self, count: int) -> int:
        """Return how many of a writer's `count` objects its reader wants."""
        return count // self.params * self.wanted + min(count % self.params, self.wanted)

    def steps(self, count: int) -> int:
        """Return the sum of their steps: a step is the place of the object."""
        return sum(step for step in range(count) if step % self.params < self.wanted)


@dataclass(frozen=True)
class Experiment:
    """Cases that belong into one table.

    Attributes:
        unit: "1/s", objects offered in a second by all writers, or "GiB/s".
        measure: the peer that the others are compared with.
    """

    title: str
    unit: str
    text: str
    cases: Sequence[Case]
    measure: str = "floor"


def fields(copied: bool) -> list[Case]:
    return [Case(figures.size(size), size, copied=copied) for size in FIELDS]


EXPERIMENTS: Mapping[str, Experiment] = {
    "small": Experiment(
        "Small objects",
        "1/s",
        "Objects with twelve attributes and one number, two writers with a reader each, one host.",
        [Case("gathered", SMALL), Case("each flushed", SMALL, flushed=True)],
    ),
    "copied": Experiment(
        "Fields on one host, copied",
        "GiB/s",
        "Two writers with a reader each, which has every field in memory of its own.",
        fields(copied=True),
    ),
    "viewed": Experiment(
        "Fields on one host, viewed",
        "GiB/s",
        "Two writers with a reader each, which sums every element.",
        fields(copied=False),
    ),
    "network": Experiment(
        "Fields over tcp",
        "GiB/s",
        "Two writers with a reader each, over the loopback device; every element is summed.",
        [Case(figures.size(FIELDS[0]), FIELDS[0], over="tcp")],
    ),
    "wanted": Experiment(
        "Fields of which a reader wants some",
        "1/s",
        "Fields of 804 KiB that two writers offer, each to one reader, in a second.",
        [Case("10 % wanted", FIELDS[0], wanted=1), Case("none wanted", FIELDS[0], wanted=0)],
    ),
    "selectors": Experiment(
        "Selectors by equality",
        "1/s",
        "Small objects of one writer, each for one of so many selectors in one other process.",
        [Case(f"{many:,}", SMALL, 1, params=many, wanted=many, readers=True) for many in (1, 100, 10_000)],
        "zenoh",
    ),
    "pairs": Experiment(
        "Pairs of writers and readers",
        "1/s",
        "Small objects in all, each writer with the same work; a reader wants those of one writer.",
        [Case(str(pairs), SMALL, pairs) for pairs in (1, 2, 5, 10)],
    ),
    "files": Experiment(
        "Beside files",
        "GiB/s",
        "Fields from two writers to a reader each. Files are written, renamed, looked for, read and removed.",
        [Case(figures.size(FIELDS[0]), FIELDS[0])],
        "files-memory",
    ),
}
