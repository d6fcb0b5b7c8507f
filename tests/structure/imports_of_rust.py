"""Reads which names the top-level modules of a Rust crate take from each other; code of tests does not count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from arrows import Arrow

#: Comments, strings and characters.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|\bb?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|\\'|[^'\\])'""", re.DOTALL)
TEST_ITEM = re.compile(r"#\[cfg\(test\)\][^{;]*")
INLINE_MODULE = re.compile(r"\bmod\s+(\w+)\s*(?=\{)")
SEGMENTS = re.compile(r"\s*((?:\w+\s*::\s*)*)(\w+|\*|\{)")


def imports(name: str, crate: Path, root: Path) -> Iterator[Arrow]:
    """Yield an arrow for each path in the crate `name` that leads into another top-level module of the crate.

    Names that the root of the crate defines or re-exports belong to the module `lib`.
    """
    files = [file.relative_to(crate / "src") for file in sorted((crate / "src").rglob("*.rs"))]
    module_paths = {file: _module_path(file) for file in files if not {"tests.rs", "tests"} & {*file.parts}}
    tops = {path[0] for path in module_paths.values() if path}
    for file, module_path in module_paths.items():
        whole = crate / "src" / file
        code = _code(whole.read_text())
        inline = [(found.end(), _closing(code, found.end()), found[1]) for found in INLINE_MODULE.finditer(code)]
        heads = "crate|super" if module_path else "|".join(["crate", "super", *sorted(tops)])
        read_until = 0
        for head in re.finditer(rf"(?<![\w:])(?<!\(in )(?:{heads})\s*::", code):
            if head.start() < read_until:
                continue
            here = [*module_path, *(module for start, end, module in inline if start < head.start() < end)]
            for path, position in _branches(code, head.start()):
                read_until = position
                taken = _from_root(path, here)
                ends = [each[0] if each and each[0] in tops else "lib" for each in (here, taken)]
                if ends[0] != ends[1]:
                    line = code.count("\n", 0, position) + 1
                    source, target = (f"{name.replace('-', '_')}::{end}" for end in ends)
                    yield Arrow(source, target, "::".join(taken), f"{whole.relative_to(root)}:{line}")


def _module_path(file: Path) -> list[str]:
    """Return the modules that lead to a file such as `frame/check.rs`; none for the root of the crate."""
    path = list(file.with_suffix("").parts)
    return path[:-1] if path[-1] in ("mod", "lib", "main") else path


def _code(text: str) -> str:
    """Blank out comments, literals and items that only tests compile; positions and lines stay the same."""
    code = NO_CODE.sub(lambda found: _blank(found[0]), text)
    while found := TEST_ITEM.search(code):
        end = _closing(code, found.end()) if code[found.end() : found.end() + 1] == "{" else found.end() + 1
        code = code[: found.start()] + _blank(code[found.start() : end]) + code[end:]
    return code


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _closing(code: str, opening: int) -> int:
    """Return the position after the brace that closes the one at `opening`."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return len(code)


def _branches(code: str, at: int, stem: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each path of the use tree that begins at `at`, and the position of its last segment."""
    found = SEGMENTS.match(code, at)
    if not found:
        return
    stem += tuple(re.findall(r"\w+", found[1]))
    if found[2] != "{":
        yield (*stem, found[2]), found.start(2)
        return
    depth = 0
    for mark in re.compile(r"[{},]").finditer(code, found.start(2), _closing(code, found.start(2))):
        depth += {"{": 1, "}": -1, ",": 0}[mark[0]]
        if depth == 1 and mark[0] != "}":
            yield from _branches(code, mark.end(), stem)


def _from_root(path: tuple[str, ...], here: list[str]) -> list[str]:
    """Return `path`, written in the module `here`, as a path from the root of the crate."""
    if path[0] == "crate":
        return [*path[1:]]
    ups = path.count("super")
    return [*here[: len(here) - ups], *path[ups:]]
