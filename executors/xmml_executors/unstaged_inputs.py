"""Files that a program looked for in its working folder, and that lie beside the model: a frequent mistake."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from xmml_planner import PlannedInstance

#: What programs write of a file that is not there.
_MISSING = re.compile(r"no such file|not found|does not exist|(can't|cannot|could not) (open|find|read)", re.IGNORECASE)
#: What may be the name of one: a text in quotes, or a word.
_NAME = re.compile(r"""["'`‘“]([^"'`’”]+)["'`’”]|([^\s"'`:,;()<>]+)""")
_LONGEST_NAME = 255


def unstaged_inputs(last_words: Iterable[str], model_folder: Path, working_folder: Path) -> list[str]:
    """Return the files that a program names as missing, by relative paths, that lie beside the model and not in the
    working folder.

    Args:
        last_words: the last lines that the program has written to its standard error.
    """
    lines = [line for line in last_words if _MISSING.search(line)]
    names = (os.path.normpath(match[1] or match[2].rstrip(".")) for line in lines for match in _NAME.finditer(line))
    return [name for name in dict.fromkeys(names) if _lies_only_in(model_folder, working_folder, name)]


def _lies_only_in(folder: Path, other: Path, name: str) -> bool:
    if len(name) > _LONGEST_NAME or os.path.isabs(name) or os.pardir in Path(name).parts or "\0" in name:
        return False
    return (folder / name).is_file() and not (other / name).exists()


def how_to_stage(instance: PlannedInstance, name: str) -> str:
    """Return what people read of such a file of an instance."""
    wanted = shlex.join((*instance.stage_in, name))
    return (
        f"{name} lies beside the model, not in the working folder of {instance.name}: "
        f'run:stage-in="{wanted}" on its implementation copies it there'
    )
