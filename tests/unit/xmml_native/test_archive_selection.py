"""Selectors over archives: SQLite narrows what is looked at, and never changes what is chosen."""

from __future__ import annotations

import contextlib
import math
import os
import random
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from archives import written
from hypothesis import given, settings
from hypothesis import strategies as st
from xmml_native._native import AttributeSchema, Selector
from xmml_native.archives.archive import Archive, ArchiveError
from xmml_native.archives.writer import ArchiveWriter

ATTRIBUTES = "i:int u:uint r:real s:str e:enum(x,y,z) t:time b:bool li:int[] by:bytes"
LARGE = 2**63
EPOCH = datetime(2026, 11, 27, 12, tzinfo=UTC)

#: What is near to where a whole number, a real one or a column of SQLite ends, or is rounded.
WHOLE = [0, 1, 2, 3, -1, 2**53, 2**53 + 1, -(2**53) - 1, LARGE - 1, -LARGE]
LARGER = [*filter(lambda each: each >= 0, WHOLE), LARGE, LARGE + 1, 2**64 - 1]
REAL = [0.0, -0.0, 0.5, 1.0, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e300, 5e-324, math.inf, -math.inf]
TEXT = ["", "a", "ab", "b", "10", "9", "ü", "Z", "a'b", "\U0001f600", "\uffff"]
TIME = [EPOCH, EPOCH + timedelta(microseconds=1), EPOCH + timedelta(seconds=1), EPOCH - timedelta(days=1)]
TIME += [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)]
VALUES: dict[str, list[Any]] = {
    "i": WHOLE,
    "u": LARGER,
    "r": REAL,
    "s": TEXT,
    "e": ["x", "y", "z"],
    "t": TIME,
    "b": [False, True],
    "li": [[1, 2]],
    "by": [b"\0"],
    "sys.t": [0.0, 0.5, 2.0],
    "sys.seq": [0, 1, 2**40],
    "sys.index": [0, 1],
    "sys.instance": ["w", "v", ""],
    "sys.dt_next": [0.0, 1.5],
}


def text_of(value: Any) -> str:
    """Return a value as it is written in a selector."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return (
            f"'{value.astimezone(timezone(timedelta(hours=1))).isoformat()}'"
            if value.year == 2026
            else f"'{value.isoformat()}'"
        )
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def constant(name: str) -> st.SearchStrategy[str]:
    kinds = {"i": "iur", "u": "iur", "r": "iur"}.get(name, [name])
    values = [value for kind in kinds for value in VALUES[kind]]
    return st.sampled_from([text_of(value) for value in values if value not in (math.inf, -math.inf)])


COMPARED = [name for name in VALUES if name not in ("li", "by")]
ORDERED = [name for name in COMPARED if name not in ("b", "e")]
SIGNS = ["=", "!=", "<", "<=", ">", ">="]


@st.composite
def condition(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["compare", "in", "within", "has", "computed", "like", "attributes"]))
    if kind == "has":
        return f"has({draw(st.sampled_from([*VALUES]))})"
    if kind == "like":
        return f"{draw(st.sampled_from(['s', 'e']))} like 'a*'"
    if kind == "attributes":
        return f"{draw(st.sampled_from(['i < u', 'i = r', 'u >= r', 'i in 0..u', 'i in (1, u)', 'i in 0..9 step u']))}"
    if kind == "computed":  # some have no result for some objects
        return draw(st.sampled_from(["i + 1 > 0", "u % i = 0", "-i <= 1", "i * 2 < u", "1 <= u - 1"]))
    name = draw(st.sampled_from(COMPARED if kind != "within" else ORDERED))
    if kind == "in":
        return f"{name} in ({', '.join(draw(st.lists(constant(name), min_size=1, max_size=4)))})"
    if kind == "within":
        step = draw(st.sampled_from(["", " step 2"])) if name in ("i", "u") else ""
        ends = st.sampled_from([text_of(value) for value in VALUES[name] if value not in (math.inf, -math.inf)])
        return f"{name} in {draw(ends)}..{draw(ends)}{step}"
    sign = draw(st.sampled_from(SIGNS if name in ORDERED else SIGNS[:2]))
    sides = [name, sign, draw(constant(name))]
    return " ".join(sides if draw(st.booleans()) else reversed(sides))


SELECTORS = st.recursive(
    condition(),
    lambda part: st.one_of(
        st.lists(part, min_size=2, max_size=4).map(lambda parts: "(" + " and ".join(parts) + ")"),
        st.lists(part, min_size=2, max_size=3).map(lambda parts: "(" + " or ".join(parts) + ")"),
        part.map(lambda each: f"not ({each})"),
    ),
    max_leaves=6,
)


def some_objects(count: int) -> list[dict[str, Any]]:
    """Return objects that have some of the attributes."""
    chance = random.Random(8)
    return [
        {name: chance.choice(values) for name, values in VALUES.items() if chance.random() < 0.8} for _ in range(count)
    ]


class Kept:
    """Objects in an archive, and as selectors are asked of them."""

    def __init__(self, folder: Path) -> None:
        objects = some_objects(300)
        self.archive = Archive(written(folder, [(None, each) for each in objects], ATTRIBUTES))
        self.schema = AttributeSchema(ATTRIBUTES)
        own = self.schema.types()
        self.described = [
            self.schema.complete(
                {name: value for name, value in each.items() if name in own},
                {name: value for name, value in each.items() if name not in own},
            )
            for each in objects
        ]

    def chosen_by(self, selector: str) -> list[int] | None:
        """Return the numbers of the objects that a selector chooses, asked of each; `None`: one cannot be asked."""
        compiled = Selector(selector, self.schema)
        try:
            return [number for number, each in enumerate(self.described, 1) if compiled.matches(each)]
        except ValueError:
            return None


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    kept = Kept(tmp_path_factory.mktemp("archive"))
    with kept.archive:
        yield kept


@settings(deadline=None, max_examples=20_000 if os.environ.get("XMML_SOAK") else 200)
@given(selector=SELECTORS)
def test_an_archive_finds_what_asking_each_object_finds(kept: Kept, selector: str) -> None:
    chosen = kept.chosen_by(selector)
    found = kept.archive.select(selector)
    if chosen is None:
        with pytest.raises(ArchiveError):
            list(found)
    else:
        assert [each.number for each in found] == chosen


def looked_at(archive: Archive, selector: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many objects a selector was asked of."""
    with monkeypatch.context() as patched:
        numbers: list[int] = []
        rows = Archive._rows

        def counted(self: Archive, *arguments: Any) -> Iterator[tuple[Any, ...]]:
            for row in rows(self, *arguments):
                numbers.append(row[0])
                yield row

        patched.setattr(Archive, "_rows", counted)
        list(archive.select(selector))
    return len(numbers)


@pytest.mark.parametrize(
    ("selector", "most"),
    [
        ("step = 30", 10),
        ("step = 30 and param % 2 = 0", 10),
        ("param in (3, 5) and step > 97", 6),
        ("step in 10..19 step 3", 100),
        ("at >= '2026-11-27T13:39:00Z' and at < '2026-11-27T13:40:00+00:00'", 10),
        ("name = 'n7'", 100),
        ("sys.t < 1", 20),
        ("step % 50 = 0", 1000),
    ],
)
def test_only_objects_are_looked_at_that_have_the_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, selector: str, most: int
) -> None:
    objects = [
        {"step": step, "param": param, "name": f"n{param}", "at": EPOCH + timedelta(minutes=step), "sys.t": float(step)}
        for step in range(100)
        for param in range(10)
    ]
    path = written(tmp_path, [(None, each) for each in objects], "step:int param:uint name:str at:time")
    with Archive(path) as archive:
        assert looked_at(archive, selector, monkeypatch) <= most


@pytest.mark.parametrize("selector", ["step = 3", "param = 3", "share > 99.0", "at > '2027-01-01'", "level = 'x'"])
def test_the_values_of_attributes_are_looked_up(tmp_path: Path, selector: str) -> None:
    objects = [
        {"step": n, "param": n, "share": float(n), "at": EPOCH + timedelta(days=n), "level": "x" if n == 3 else "y"}
        for n in range(1000)
    ]
    path = written(
        tmp_path, [(None, each) for each in objects], "step:int param:uint share:real at:time level:enum(x,y)"
    )
    with Archive(path) as archive:
        steps: list[str] = []
        archive._index.set_trace_callback(steps.append)
        list(archive.select(selector))
        archive._index.set_trace_callback(None)
        asked = next(step for step in steps if "WHERE" in step)
        [(*_, plan)] = archive._index.execute(f"EXPLAIN QUERY PLAN {asked}").fetchall()[:1]
    assert plan.startswith("SEARCH objects USING")


def test_what_has_no_result_is_told_as_before_the_objects_that_a_later_part_excludes(tmp_path: Path) -> None:
    path = written(tmp_path, [(None, {"step": 0}), (None, {"step": 1})], "step:int")
    with Archive(path) as archive:
        with pytest.raises(ArchiveError, match="object 1 cannot be read: 6 % 0 has no result"):
            list(archive.select("6 % step = 0 and step > 0"))
        assert [each["step"] for each in archive.select("step > 0 and 6 % step = 0")] == [1]


def test_times_of_other_zones_are_found(tmp_path: Path) -> None:
    ahead = timezone(timedelta(hours=5))
    times = [EPOCH.astimezone(ahead), EPOCH.replace(tzinfo=None), "2026-11-27T12:00Z", EPOCH + timedelta(hours=3)]
    path = written(tmp_path, [(None, {"at": time}) for time in times], "at:time")
    with Archive(path) as archive:
        assert [each.number for each in archive.select("at = '2026-11-27T07:00-05:00'")] == [1, 2, 3]
        assert [each.number for each in archive.select("at > '2026-11-27T12:00'")] == [4]


def test_an_archive_of_an_earlier_version_is_read_as_it_is_and_gets_its_lookups_with_the_next_writer(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, [(None, {"step": step}) for step in range(9)], "step:int")
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"))) as index:
        index.execute('DROP INDEX "by.step"')
    os.unlink(os.path.join(path, "readers"))
    with Archive(path) as archive:
        assert [each["step"] for each in archive.select("step > 6")] == [7, 8]
    ArchiveWriter(path).close()
    with contextlib.closing(sqlite3.connect(os.path.join(path, "index.sqlite"))) as index:
        assert index.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL").fetchall() == [
            ("by.step",)
        ]


def test_of_many_attributes_the_first_are_looked_up(tmp_path: Path) -> None:
    names = [f"a{number}" for number in range(40)]
    path = written(tmp_path, [(None, dict.fromkeys(names, 1))], " ".join(f"{name}:int" for name in names))
    with Archive(path) as archive:
        assert (
            len(archive._index.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE INDEX%'").fetchall())
            == 16
        )
        assert len(list(archive.select("a39 = 1 and a0 = 1"))) == 1
