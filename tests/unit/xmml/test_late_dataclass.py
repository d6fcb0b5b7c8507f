"""Classes whose methods are written when the first object is made, against those of the standard library."""

from __future__ import annotations

import dataclasses
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import field
from types import SimpleNamespace
from typing import Any

import pytest

from xmml.late_dataclass import dataclass


def classes(decorate: Callable[..., Any]) -> SimpleNamespace:
    """The same classes, made by one decorator or the other."""

    @decorate(frozen=True)
    class Point:
        """A place."""

        x: float
        y: float = 0.5
        tags: list[str] = field(default_factory=list)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

        def norm(self) -> float:
            return abs(self.x) + abs(self.y)

    @decorate(frozen=True)
    class Named(Point):
        name: str = "?"

    @decorate
    class Count:
        value: int = 0

    @decorate(frozen=True, order=True)
    class Rank:
        number: int
        letters: tuple[str, ...] = ()

    class Plain(Named):
        """A class that is none itself."""

    @decorate(frozen=True, slots=True)
    class Slim:
        value: int

    @decorate
    class Own:
        value: int

        def __init__(self) -> None:
            self.value = 7

    return SimpleNamespace(Point=Point, Named=Named, Count=Count, Rank=Rank, Plain=Plain, Slim=Slim, Own=Own)


def outcome(act: Callable[[SimpleNamespace], Any]) -> tuple[str, str]:
    """What the classes of either decorator do, as text: both must do the same."""
    texts = []
    for decorate in (dataclasses.dataclass, dataclass):
        try:
            texts.append(repr(act(classes(decorate))))
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts[0], texts[1]


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.Point(1.0),
        lambda c: c.Point(1.0, y=2.0, tags=["a"]).norm(),
        lambda c: (c.Point(1.0) == c.Point(1.0), c.Point(1.0) == c.Point(2.0), c.Point(1.0) == c.Named(1.0)),
        lambda c: (hash(c.Rank(1)) == hash(c.Rank(1)), {c.Rank(1): 2}[c.Rank(1)]),
        lambda c: c.Count.__hash__ if c.Count() else None,
        lambda c: sorted([c.Rank(2), c.Rank(1, ("b",)), c.Rank(1, ("a",))]),
        lambda c: c.Named(1.0, name="n"),
        lambda c: c.Plain(3.0, name="p"),
        lambda c: c.Plain.__match_args__,
        lambda c: (c.Named.__match_args__, c.Point.__match_args__),
        lambda c: [each.name for each in dataclasses.fields(c.Named)],
        lambda c: (dataclasses.is_dataclass(c.Plain), dataclasses.is_dataclass(c.Point)),
        lambda c: dataclasses.replace(c.Point(1.0), y=4.0),
        lambda c: dataclasses.asdict(c.Named(1.0)),
        lambda c: setattr(c.Point(1.0), "x", 2.0),
        lambda c: c.Point(),
        lambda c: c.Point(-1.0),
        lambda c: c.Point(1.0, 2.0, [], 4.0),
        lambda c: (c.Point.y, c.Point.__doc__, c.Point.__name__),
        lambda c: c.Slim(3),
        lambda c: c.Own(),
    ],
)
def test_it_is_what_the_standard_library_makes(act: Callable[[SimpleNamespace], Any]) -> None:
    usual, late = outcome(act)
    assert late == usual


def test_defaults_are_not_shared() -> None:
    point = classes(dataclass).Point
    point(1.0).tags.append("a")
    assert point(1.0).tags == []


def test_a_pattern_takes_it_apart_before_any_object_has_been_made_by_its_own_class() -> None:
    late = classes(dataclass)
    match late.Named(1.0, name="n"):
        case late.Point(x, y):
            assert (x, y) == (1.0, 0.5)
        case _:
            pytest.fail("no match")


def test_nothing_is_written_before_the_first_object() -> None:
    point = classes(dataclass).Point
    assert "__eq__" not in point.__dict__
    point(1.0)
    assert "__eq__" in point.__dict__


def test_a_mistake_is_told_each_time() -> None:
    @dataclass
    class Wrong:
        first: int = 0
        second: str  # type: ignore[misc]

    for _ in range(2):
        with pytest.raises(TypeError, match="non-default argument 'second'"):
            Wrong()  # type: ignore[call-arg]


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that let each other run after a few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_threads_may_make_the_first_objects_at_once() -> None:
    for _ in range(50):
        named = classes(dataclass).Named
        barrier = threading.Barrier(4)
        made: list[Any] = []

        def make(named: Any = named, barrier: threading.Barrier = barrier, made: list[Any] = made) -> None:
            barrier.wait()
            made.append(named(1.0))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [named(1.0)] * 4


@pytest.mark.usefixtures("hasty_threads")
def test_a_class_is_a_dataclass_for_every_thread_while_it_is_completed() -> None:
    for _ in range(300):
        named = classes(dataclass).Named
        barrier = threading.Barrier(4)
        found: list[Any] = []

        def look(named: Any = named, barrier: threading.Barrier = barrier, found: list[Any] = found) -> None:
            barrier.wait()
            found.append((dataclasses.is_dataclass(named), [each.name for each in dataclasses.fields(named)]))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [(True, ["x", "y", "tags", "name"])] * 4


@dataclass(frozen=True)
class Packed:
    value: int


def test_an_object_survives_being_packed() -> None:
    assert pickle.loads(pickle.dumps(Packed(3))) == Packed(3)
