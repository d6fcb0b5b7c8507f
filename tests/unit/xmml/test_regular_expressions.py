"""No regular expression that sees what somebody else has written takes the square of its length."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bounds import TooSlow, bounded_time

ROOT = Path(__file__).parents[3]
#: The packages that read documents, files of parameters and sites, and imports; and that which shows what programs say.
PACKAGES = ("xmml", "planner/xmml_planner", "executors/xmml_run")
#: Those that see only a bounded piece of a text.
BOUNDED = {"xmml/tree.py:_UNQUOTED": "200 characters before the place of an error"}
#: What takes the square of its length takes hundreds of millions of steps, and many seconds, on a text this long.
LENGTH = 40_000
MOST_SECONDS = 1.0
METHODS = {"match": "match", "fullmatch": "fullmatch", "search": "search"} | dict.fromkeys(
    ("sub", "split", "finditer", "findall"), "findall"
)

Found = tuple[str, "re.Pattern[str] | re.Pattern[bytes]", str]


def patterns() -> Iterator[Found]:
    """Yield name, pattern and use of the regular expressions of the packages, but for those made of variables."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^import re$", text, re.MULTILINE):
                yield from _of_module(path, text)


def _of_module(path: Path, text: str) -> Iterator[Found]:
    file = path.relative_to(ROOT).as_posix()
    module = file.removeprefix("planner/").removeprefix("executors/").removesuffix(".py").replace("/", ".")
    for name, value in vars(importlib.import_module(module.removesuffix(".__init__"))).items():
        if isinstance(value, re.Pattern) and re.search(rf"^{name} = ", text, re.MULTILINE):
            uses = set(re.findall(rf"\b{name}\.({'|'.join(METHODS)})\b", text)) or {"match"}
            for use in sorted({METHODS[each] for each in uses}):
                yield f"{file}:{name}", value, use
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=use), args=[ast.Constant(value=str(pattern)), *_]
            ) if use in METHODS:
                yield f"{file}:{pattern}", re.compile(pattern), METHODS[use]


def hostile(pattern: str) -> Iterator[str]:
    """Yield long texts of what the pattern names, which do not end as it wants."""
    named = set(re.sub(r"\\[a-zA-Z]", "", pattern)) | set(" \t\na0.e-")
    for pumped in sorted({*named, "a.", "a ", "1 ", "e.", "\n ", "a,", "(a", "[a]", "\\a", 'a="'}):
        for begun in ("", "a.", "1"):
            for end in ("!", "x y"):
                yield begun + pumped * (LENGTH // len(pumped)) + end


FOUND = [each for each in patterns() if each[0] not in BOUNDED]


def test_there_are_patterns_to_try() -> None:
    assert len(FOUND) > 60
    assert {"planner/xmml_planner/sites/amounts.py:_NUMBER_AND_WORD", "xmml/checks/unused.py:_END"} <= {
        name for name, *_ in FOUND
    }


@pytest.mark.parametrize(("name", "pattern", "use"), FOUND, ids=[f"{name} {use}" for name, _, use in FOUND])
def test_a_long_text_is_tried_at_once(name: str, pattern: re.Pattern[str] | re.Pattern[bytes], use: str) -> None:
    is_text = isinstance(pattern.pattern, str)
    for text in hostile(pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")):
        try:
            with bounded_time(MOST_SECONDS):
                getattr(pattern, use)(text if is_text else text.encode("latin-1"))
        except TooSlow:
            pytest.fail(f"{name}: {text[:6]!r}... of {len(text)} characters takes more than {MOST_SECONDS} s")
