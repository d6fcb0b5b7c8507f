"""The cases of the cross-language suite, and what a reader must report of them (tests/models/languages/README.md)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import elements

DTYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))
DTYPES += ("float32", "float64", "complex64", "complex128")
#: Every rank; extents all different, so that no two dimensions can be swapped without being seen.
SHAPES = [(), (7,), (3, 5), (2, 3, 4), (2, 1, 3, 2), (2, 3, 1, 2, 2), (1, 2, 3, 2, 1, 2), (2, 1, 2, 3, 1, 2, 2)]
EMPTY = [(0,), (0, 3), (3, 0), (2, 0, 2), (1, 2, 0, 1, 1, 2, 3)]
#: More elements than the formula has values: every special value is among them.
EVERY_VALUE = (91, 93)
LARGEST_REAL = 1.7976931348623157e308
TEXTS = ("", "plain", "Grüße, 世界, 🌊", "\0", "before\0behind", "line\nline\r\n\ttab", " blanks ", "é" * 40_000)
DOUBLES = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324, LARGEST_REAL)


def _text(text: str) -> str:
    return f"text x{text.encode().hex()}"


def _double(number: float) -> str:
    return f"double {elements.bits(number)}"


def _array(dtype: str, shape: tuple[int, ...], order: str = "row") -> str:
    return " ".join(map(str, ("array", dtype, order, len(shape), *shape)))


def _key(text: str) -> str:
    return f"x{text.encode().hex()}"


def values() -> Iterator[str]:
    """What is sent, in words."""
    for dtype in DTYPES:
        for shape, order in itertools.product(SHAPES, ("row", "column")):
            yield _array(dtype, shape, order)
        yield _array(dtype, EVERY_VALUE, "row")
        yield _array(dtype, EVERY_VALUE, "column")
    for dtype, shape, order in itertools.product(("bool", "int16", "complex128"), EMPTY, ("row", "column")):
        yield _array(dtype, shape, order)
    yield "nothing"
    yield from (f"bool {truth}" for truth in (0, 1))
    yield from (f"int {number}" for number in (0, -1, 2**31, 2**53 + 1, -(2**63), 2**63 - 1))
    yield from map(_double, DOUBLES)
    yield from (f"complex {elements.bits(re)} {elements.bits(im)}" for re, im in itertools.pairwise(DOUBLES))
    yield from map(_text, TEXTS)
    yield from (f"bytes x{content.hex()}" for content in (b"", b"\0", bytes(range(256)), b"\xff" * 70_000))
    yield "[ ]"
    yield "{ }"
    yield f"[ nothing bool 1 int -7 {_double(2.5)} {_text('two')} bytes x00ff [ [ ] {{ }} [ int 1 ] ] ]"
    yield (
        f"{{ {_key('field')} {_array('float64', (3, 4), 'column')} {_key('größe')} {{ {_key('n')} int 3 "
        f"{_key('parts')} [ {_array('uint16', (2, 0))} {_array('complex64', (2, 2))} ] }} {_key('z')} nothing }}"
    )
    yield "[ " * 60 + "int 1" + " ]" * 60
    yield _array("float64", (1 << 17,))  # 1 MiB
    yield _array("uint8", ((1 << 20) + 1,))


def lines(large_order: str) -> list[str]:
    """The cases, one a line: number, time, next time (`none`: none follows) and value; times are bits of doubles. The
    last one is an array of 64 MiB in this order."""
    times = [-LARGEST_REAL, -1e10, -3.25, -0.0, 5e-324, 1.0, *(1.5 + 0.25 * i for i in range(1000))]
    cases = []
    for number, value in enumerate([*values(), _large_array(64, large_order)]):
        following = "none" if number % 3 == 0 else elements.bits(times[number + 1])
        cases.append(f"{number} {elements.bits(times[number])} {following} {value}")
    return cases


def large_line(mebibytes: int) -> list[str]:
    """One array of so many MiB."""
    return [f"0 {elements.bits(0.0)} none {_large_array(mebibytes, 'row')}"]


def _large_array(mebibytes: int, order: str) -> str:
    return _array("float64", (mebibytes << 7, 1 << 10), order)


def expected(line: str, writer: str, reader: str) -> str:
    """What the reader must report when the writer has sent this case."""
    words = iter(line.split())
    number = next(words)
    report = [number, next(words), next(words)]
    arrays = 0
    for word in words:
        report.append(word)
        if word != "array":
            continue
        dtype, order, rank = (next(words) for _ in range(3))
        shape = tuple(int(next(words)) for _ in range(int(rank)))
        sent = order if writer != "fortran" else "column"
        if _is_both(shape):
            sent = "either"
        digested = "column" if reader == "fortran" else sent
        sum_ = _digest(dtype, shape, int(number) + 100 * arrays, digested)
        report += [dtype, sent, "either" if _is_both(shape) else digested, rank, *map(str, shape), sum_]
        arrays += 1
    return " ".join(report)


def reported(line: str) -> str:
    """A report without what is the same either way: the order of an array that lies alike in both."""
    words = line.split()
    for place, word in enumerate(words):
        if word == "array":
            rank = int(words[place + 4])
            if _is_both(tuple(map(int, words[place + 5 : place + 5 + rank]))):
                words[place + 2] = words[place + 3] = "either"
    return " ".join(words)


def _is_both(shape: tuple[int, ...]) -> bool:
    """Whether an array of this shape lies alike in row-major and in column-major order."""
    return 0 in shape or sum(extent > 1 for extent in shape) < 2


@cache
def _digest(dtype: str, shape: tuple[int, ...], seed: int, order: str) -> str:
    order = "row" if order == "either" else order
    return elements.digest(elements.array(dtype, shape, seed, order), order)
