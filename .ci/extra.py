"""Print the requirements of a group of extras of pyproject.toml, one a line; `xmml[a,b]` stands for those groups."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
GROUPS = PROJECT["optional-dependencies"]


def requirements(group: str) -> Iterator[str]:
    """The requirements of a group, those of groups that it names in their place."""
    for requirement in GROUPS[group]:
        others = re.fullmatch(r"xmml\[([\w,-]+)\]", requirement)
        if others:
            for other in others[1].split(","):
                yield from requirements(other)
        else:
            yield requirement


print("\n".join(requirements(sys.argv[1])))
