"""Puts the newest results of the benchmarks into docs/performance.md, so that no figure is typed by hand.

python benchmarks/publish.py [SUITE ...]

The page says where a table goes and from which section of which suite it comes:

    <!-- figures: wide-area / Small windows -->
    <!-- end of figures -->

What stands between the two lines is replaced by that section of the newest benchmarks/results/SUITE-*.md, and
docs/performance/SUITE.png by its plot. `SUITE / machine` is the line about the machine and the rounds. Nothing else
on the page is touched.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import places

PAGE = places.ROOT / "docs" / "performance.md"
PLACE = re.compile(r"(<!-- figures: ([\w-]+) / ([^\n]+?) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)
MACHINE = "machine"


class NothingToPublish(Exception):
    """A section of the page has no figures; the text says which."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", metavar="SUITE", nargs="*", help="default: all that have results")
    arguments = parser.parse_args()
    page = PAGE.read_text()
    suites = arguments.suites or sorted({match[2] for match in PLACE.finditer(page) if newest(match[2], "md")})
    try:
        PAGE.write_text(published(page, suites))
    except NothingToPublish as missing:
        print(missing, file=sys.stderr)
        return 1
    for suite in suites:
        plot = newest(suite, "png")
        if plot is not None:
            shutil.copyfile(plot, PAGE.parent / "performance" / f"{suite}.png")
    print(f"published: {', '.join(suites) or 'nothing'}")
    return 0


def newest(suite: str, suffix: str) -> Path | None:
    """The newest result of a suite; their names end with the time."""
    return max(places.RESULTS.glob(f"{suite}-[0-9]*.{suffix}"), default=None)


def published(page: str, suites: list[str]) -> str:
    """The page with the sections of these suites.

    Raises:
        NothingToPublish: a section has not been measured.
    """

    def section(match: re.Match[str]) -> str:
        begin, suite, title, _, end = match.groups()
        return f"{begin}\n{figures_of(suite, title)}\n\n{end}" if suite in suites else match[0]

    return PLACE.sub(section, page)


def figures_of(suite: str, title: str) -> str:
    """A section of the newest result of a suite.

    Raises:
        NothingToPublish: there is none.
    """
    result = newest(suite, "md")
    if result is None:
        raise NothingToPublish(f"{suite} has no results: python benchmarks/{suite}/run.py")
    machine, *sections = re.split(r"^### ", result.read_text(), flags=re.MULTILINE)
    if title == MACHINE:
        return machine.strip()
    for each in sections:
        head, _, text = each.partition("\n")
        if head.strip() == title:
            return text.strip()
    raise NothingToPublish(f'{result.name} has no section "{title}"; measure it again, or take it off the page')


if __name__ == "__main__":
    raise SystemExit(main())
