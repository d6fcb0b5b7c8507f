"""The environment of programs at a site."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from xmml_planner.sites import Site

from xmml_sites.ssh.remote_shell import guarded

#: xMML needs this Python, or a newer one.
LEAST_PYTHON = (3, 11)


def environment_lines(part: Site) -> list[str]:
    """Return the shell lines that make the environment of programs at a site or a part of one."""
    lines = [*(f"module load {shlex.quote(module)}" for module in part.modules), *part.setup]
    return [*lines, *(f"export {variable}={shlex.quote(value)}" for variable, value in part.env.items())]


def required(lines: Iterable[str]) -> str:
    """Return shell text of lines, of which each must succeed: the shell ends with the first one that fails."""
    return "".join(f"{guarded(line, 'exit')}\n" for line in lines)


def environment_as_it_works(part: Site) -> str:
    """Return shell text that makes the environment of programs as far as that works, and says nothing."""
    return "\n".join(["{ :", *environment_lines(part), "} >/dev/null 2>&1", ""])
