"""The pages about the checks: prose that people write, and examples that are made from the documents of the tests.

    python tests/support/check_pages.py

writes the examples into the pages of the package (`xmml/checks/pages`), and their index (`docs/checks.md`). A test
holds all of them against what this makes.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from xmml.check import check
from xmml.positions import Mark, Position
from xmml.problems import CODES, Problem, render

ROOT = Path(__file__).parents[2]
DOCUMENTS = ROOT / "tests" / "data" / "documents" / "checks"
PAGES = ROOT / "xmml" / "checks" / "pages"
INDEX = ROOT / "docs" / "checks.md"
_EXAMPLES = "\n## "
_OPTION = re.compile(r"<!-- -p (\S+?)=(\S*) -->")


def problems_of(document: Path) -> tuple[Problem, ...]:
    """Check a document as its neighbours and its comments say: with `NAME.param.xml` and with `<!-- -p X=Y -->`."""
    parameters = document.with_suffix(".param.xml")
    options = dict(_OPTION.findall(document.read_text(encoding="utf-8")))
    return check(document, [parameters] if parameters.exists() else [], options).problems


def wrong_documents() -> list[Path]:
    """Return every document with a mistake; the folder is named after its code."""
    return sorted(DOCUMENTS.glob("*/wrong*.xmml"))


def right_documents() -> list[Path]:
    """Return the documents that have nothing to be told."""
    return sorted(DOCUMENTS.glob("*/right*.xmml"))


def page_of(code: str) -> str:
    """Return the page about a code: its prose as it stands, and the examples as the documents are now."""
    prose = (PAGES / f"{code}.md").read_text(encoding="utf-8").partition(_EXAMPLES)[0].strip()
    return f"{prose}\n\n{chr(10).join(_examples(code))}"


def index() -> str:
    """Return the index of the pages."""
    lines = [
        "# What the checks tell",
        "",
        "`xmml check MODEL...` tells every error (E) and warning (W) of a model at once, each with its place, the line",
        "with carets under what is meant, and what to do. `xmml check --explain E06` prints the page about one. With",
        "`--strict` warnings are errors; `--format json` (schema: `schema/xmml_schema/check-report.schema.json`) and",
        "`--format sarif` are for other programs. The exit status is 1 if there are errors. Codes are not renumbered.",
        "",
        "| code | means |",
        "|---|---|",
        *(f"| [{code}](../xmml/checks/pages/{code}.md) | {title} |" for code, title in CODES.items()),
        "",
        "`python tests/support/check_pages.py` writes the examples in the pages, and this index.",
        "",
    ]
    return "\n".join(lines)


def _examples(code: str) -> Iterator[str]:
    folder = DOCUMENTS / code
    wrong = sorted(folder.glob("wrong*.xmml"), key=lambda path: path.name.replace(".", " "))
    paired = {path: path.with_name(path.name.replace("wrong", "right", 1)) for path in wrong}
    yield "## Wrong"
    for path, right in paired.items():
        told = [_without_folder(problem) for problem in problems_of(path)]
        if not right.exists():
            yield f"\n```xml\n{path.read_text(encoding='utf-8').strip()}\n```"
        yield "\n```text\n" + "\n".join(render(problem) for problem in told) + "\n```"
        if right.exists():
            yield f"\nMended:\n\n```diff\n{_changes(path, right)}\n```"
    alone = [path for path in sorted(folder.glob("right*.xmml")) if path not in paired.values()]
    if alone:
        yield "\n## Right"
        for path in alone:
            yield f"\n```xml\n{path.read_text(encoding='utf-8').strip()}\n```"
    yield ""


def _changes(wrong: Path, right: Path) -> str:
    lines = []
    for suffix in (".xmml", ".param.xml"):
        texts = [path.with_suffix(suffix) for path in (wrong, right)]
        if not texts[0].exists():
            continue
        old, new = (path.read_text(encoding="utf-8").splitlines() for path in texts)
        changes = list(difflib.unified_diff(old, new, n=2, lineterm=""))[2:]
        lines += ["  ..." if line.startswith("@@") else line for line in changes]
    return "\n".join(lines)


def _without_folder(problem: Problem) -> Problem:
    """Return a problem as it is told where its document lies."""

    def local(place: Position) -> Position:
        return replace(place, file=Path(place.file).name)

    position = None if problem.position is None else local(problem.position)
    mark = None if problem.mark is None else Mark(local(problem.mark.position), problem.mark.length, problem.mark.note)
    return replace(problem, position=position, mark=mark)


def main() -> int:
    """Write all pages and the index."""
    for code in CODES:
        (PAGES / f"{code}.md").write_text(page_of(code), encoding="utf-8")
    INDEX.write_text(index(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
