"""Print requirements of pyproject.toml, one a line: of extras, of the package (`dependencies`), of its build (`build`).

In a group `xmml[a,b]` stands for those groups.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
GROUPS = {
    **PYPROJECT["project"]["optional-dependencies"],
    "dependencies": PYPROJECT["project"]["dependencies"],
    "build": PYPROJECT["build-system"]["requires"],
}


def requirements(group: str) -> Iterator[str]:
    """The requirements of a group, those of groups that it names in their place."""
    for requirement in GROUPS[group]:
        others = re.fullmatch(r"xmml\[([\w,-]+)\]", requirement)
        if others:
            for other in others[1].split(","):
                yield from requirements(other)
        else:
            yield requirement


print("\n".join(each for group in sys.argv[1:] for each in requirements(group)))
