"""Which settings of a yMMSL file reach which component: by path, the longest first; of all, those without a path."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import field

from xmml.convert.cxa import number_text
from xmml.convert.ymmsl_file import SettingValue, YmmslFile
from xmml.convert.ymmsl_flat import Part
from xmml.late_dataclass import dataclass
from xmml.problems import ModelError

#: How many parameters the settings may become; one without a path is a parameter of every component.
MAX_PARAMETERS = 1_000_000

_STEP = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]", re.ASCII)


@dataclass
class Parameters:
    """The parameters of a component: of all copies, and of single ones."""

    of_all: dict[str, SettingValue] = field(default_factory=dict)
    of_copies: dict[int, dict[str, SettingValue]] = field(default_factory=dict)


def distribute(file: YmmslFile, parts: Sequence[Part], notes: list[str]) -> dict[tuple[str, ...], Parameters]:
    """Return the parameters of every part; notes tell of settings that reach none.

    A setting without a path goes to every component, or, where programs say which settings they know, to those that
    know it.

    Raises:
        ModelError: they make too many parameters.
    """
    found = {part.path: Parameters() for part in parts}
    below: dict[tuple[str, ...], list[Part]] = {}
    for part in parts:
        for length in range(len(part.path) + 1):
            below.setdefault(part.path[:length], []).append(part)
    given = 0
    depth: dict[tuple[tuple[str, ...], str], int] = {}
    for key, value in file.settings.items():
        *steps, name = _STEP.findall(key)
        if name[0].startswith("muscle_"):
            notes.append(f"the setting {key} is left out: it is for MUSCLE3 itself")
            continue
        prefix = tuple(identifier for identifier, _ in steps if identifier)
        indices = [int(index) for identifier, index in steps if not identifier]
        reached = [part.path for part in below.get(prefix, ()) if _knows(part, name[0])]
        given += len(reached)
        if given > MAX_PARAMETERS:
            raise ModelError([file.place.problem(f"the settings make more than {MAX_PARAMETERS} parameters in all")])
        if not reached:
            notes.append(f"the setting {key} is left out: no component takes it")
        for path in reached:
            if indices and (path != prefix or len(indices) != 1):
                notes.append(f"the setting {key} is left out: only copies with one index can have values of their own")
            elif indices:
                found[path].of_copies.setdefault(indices[0], {})[name[0]] = value
            elif depth.get((path, name[0]), -1) <= len(prefix):
                depth[path, name[0]] = len(prefix)
                found[path].of_all[name[0]] = value
    return found


def _knows(part: Part, name: str) -> bool:
    return part.program is None or part.program.settings is None or name in part.program.settings


def setting_text(value: SettingValue) -> str:
    """Return a value as the text of a parameter."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value) if not value.is_integer() else repr(value)
    return value if isinstance(value, str) else json.dumps(value)
