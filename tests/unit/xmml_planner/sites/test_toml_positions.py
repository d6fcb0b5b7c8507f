"""Where keys and values of a TOML document stand."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xmml_planner.sites.toml_positions import MOST_PARTS, Node, TomlError, parse_toml

EVERYTHING = '''\
plain = 1 # comment
"quoted key" = "a # in a text, and \\" a quote"
dotted . "k.e.y" = -2.5e3
literal = 'C:\\path'
date = 1979-05-27 07:32:00
long = """
several
lines with ""two"" quotes"""
long_literal = \'\'\'a ]\'\'\'
list = [ 1, # one
  [2, "x, ]"],
  { a = 1, b.c = [true] }, ]
[table.inner]
k = { }
[[many]]
n = 1
[many.child]
m = "x"
[[many]]
n = 2
  [table]
  late = inf
'''


def nodes(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    yield node
    for child in [*node.children.values(), *node.elements]:
        yield from nodes(child)


def plain(node: Node) -> Any:
    """The value that the tree of nodes has, made without looking at the values of tables and arrays."""
    if node.elements:
        return [plain(element) for element in node.elements]
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.children.items()}
    return node.value


def check(text: str) -> None:
    """Hold the tree and every place in it against the standard library's reader."""
    root = parse_toml(text)
    assert plain(root) == tomllib.loads(text)
    for node in nodes(root):
        for key, child in node.children.items():
            written = text[slice(*child.key_span)]
            assert tomllib.loads(f"{written} = 1") == {key: 1}
        written = text[slice(*node.value_span)]
        if not isinstance(node.value, (dict, list)) or written[:1] in ("{",):
            assert tomllib.loads(f"value = {written}")["value"] == node.value


def test_every_kind_of_key_and_value_is_found_where_it_stands() -> None:
    check(EVERYTHING)


def test_lines_may_end_as_on_windows() -> None:
    check(EVERYTHING.replace("\n", "\r\n"))


KEYS = st.text("abc-_1", min_size=1, max_size=3) | st.text('x .="#[', min_size=1, max_size=3).map(
    lambda key: '"' + key.replace('"', '\\"') + '"'
)
SCALARS = st.integers(-99, 99).map(str) | st.sampled_from(
    ["true", "1e3", "2.5", "inf", '"#"', "']'", '"\\""', '"""a\n"b"""', "'''\n'x'''", "1979-05-27"]
)
SPACES = st.sampled_from(["", " ", "\t "])


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    """A value as text."""
    kind = draw(st.integers(0, 3 if depth else 1))
    if kind < 2:
        return draw(SCALARS)
    if kind == 2:
        between = draw(st.sampled_from([",", " , ", ",\n", ", # note ]\n"]))
        return "[" + between.join(draw(st.lists(values(depth=depth - 1), max_size=3))) + draw(SPACES) + "]"
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    return "{" + ", ".join(f"{key} = {draw(values(depth=depth - 1))}" for key in keys) + "}"


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A document, nearly always a valid one."""
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        key = ".".join(draw(st.lists(KEYS, min_size=1, max_size=2)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            lines.append(f"[{draw(SPACES)}{key}{draw(SPACES)}]")
        elif kind == 1:
            lines.append(f"{draw(SPACES)}[[{key}]] # header")
        elif kind == 2:
            lines.append(draw(st.sampled_from(["", "# comment [x]", "\t"])))
        else:
            lines.append(f"{key}{draw(SPACES)}={draw(SPACES)}{draw(values())}{draw(SPACES)}")
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_random_documents_have_every_value_where_it_stands(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(TomlError):
            parse_toml(text)
        return
    check(text)


@pytest.mark.parametrize(
    ("text", "line", "column"), [("a = 1\nb = \n", 2, 5), ("a = [1,\n", 0, 0), ("x", 0, 0), ("a = 1 2", 1, 7)]
)
def test_an_error_has_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(TomlError) as caught:
        parse_toml(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(TomlError):
        parse_toml("a = " + "[" * 100_000)


@pytest.mark.parametrize("depth", range(300, 400, 5))
def test_tables_in_tables_are_read_or_refused(depth: int) -> None:
    with contextlib.suppress(TomlError):  # by how deep the test itself is called
        parse_toml("a = " + "{a = " * depth + "1" + "}" * depth)


def key(parts: int, part: str = "a", dot: str = ".") -> str:
    return dot.join([part] * parts)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        (f"b = 1\n{key(MOST_PARTS + 1)} = 1\n", 2, 2 * MOST_PARTS),
        (f"[{key(MOST_PARTS + 1)}]\n", 1, 2 * MOST_PARTS + 1),
        (f"[[{key(MOST_PARTS + 1)}]]\n", 1, 2 * MOST_PARTS + 2),
        (f"b = [1, {{ {key(MOST_PARTS + 1, chr(34) * 2, ' . ')} = 1 }}]\n", 1, 5 * MOST_PARTS + 9),
    ],
)
def test_a_key_of_too_many_parts_is_refused_where_it_goes_too_far(text: str, line: int, column: int) -> None:
    with pytest.raises(TomlError, match=f"more than {MOST_PARTS} parts") as caught:
        parse_toml(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_dots_elsewhere_are_not_counted() -> None:
    check(f"{key(MOST_PARTS)} = 1\n")
    check(f'# {key(1000)}\nb = "{key(1000)}"\nc = \'\'\'\n{key(1000)}\'\'\'\nd = """\\"{key(1000)}"""\n')
    check(f"b = [{', '.join(['1.5'] * 1000)}]\n")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9_" * 2500 + "9", "0x" + "f" * 5000, str(2**70)])
def test_a_number_that_toml_does_not_have_is_refused_with_its_place(number: str) -> None:
    with pytest.raises(TomlError, match="more than 64 bits") as caught:
        parse_toml(f"a = 1\nb = {number}\n")
    assert (caught.value.line, caught.value.column) in ((2, 5), (2, 6))


@given(st.text(alphabet="a.\"'\\\n#[]{}= ", max_size=60))
def test_any_text_is_read_or_refused_as_the_standard_library_does(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(TomlError):
            parse_toml(text)
    else:
        parse_toml(text)
