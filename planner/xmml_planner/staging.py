"""What of the model's folder an instance needs at a site that does not see it."""

from __future__ import annotations

import json
import os

from xmml_planner.execution_plan import PlannedInstance
from xmml_planner.java import HOST

#: What is staged where a program is built, or where the model names no file: the sources may be anywhere.
EVERYTHING = "."


def staged_paths(instance: PlannedInstance, folder: str, is_built: bool) -> list[str]:
    """Return files, folders and globs relative to the model's folder.

    A program that is built there needs the whole folder, from which whoever stages it leaves out what builds have made;
    a Python script the other modules beside it; what the runtime
    hosts the folders that it imports from; everything its `run:stage-in`. What lies outside of the model's folder is
    taken to be at the site already.
    """
    paths = [EVERYTHING] if is_built else []
    if not is_built and instance.program is not None:
        paths.append(os.path.relpath(instance.program, folder))
        if instance.program.endswith(".py"):
            paths += _modules(os.path.dirname(instance.program), folder)
    if not is_built and instance.image is not None:
        paths.append(os.path.relpath(instance.image, folder))
    if not is_built and HOST in instance.command:  # a class in Java: its class path stands before that of the host
        first = instance.command.index("-c") + 2
        paths += [os.path.relpath(each, folder) for each in instance.command[first : instance.command.index("--")]]
    hosted = None if is_built else instance.env.get("XMML_HOST")
    if hosted is not None:
        paths += [module for each in json.loads(hosted).get("path", ()) for module in _modules(each, folder)]
    paths += [os.path.relpath(os.path.join(folder, pattern), folder) for pattern in instance.stage_in]
    inside = [path for path in paths if not path.startswith(os.pardir) and not os.path.isabs(path)]
    return list(dict.fromkeys(inside))


def _modules(place: str, folder: str) -> list[str]:
    """Return the modules and packages that lie in a folder."""
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return []
    found = ["*.py"] if any(name.endswith(".py") for name in names) else []
    found += [name for name in names if os.path.isfile(os.path.join(place, name, "__init__.py"))]
    return [os.path.relpath(os.path.join(place, name), folder) for name in found]
