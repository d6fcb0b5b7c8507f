"""Several questions to a site as one command, and their answers one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xmml_sites.ssh.command_result import CommandResult

#: Stands behind each answer, with its exit status.
_MARK = "xmml-answered"
_END_OF_ANSWER = re.compile(rf"\n{_MARK} (\d+)\n")


def batched(commands: Sequence[str]) -> str:
    """Return one command that carries out all, one after the other, whatever becomes of each."""
    return "".join(f"( {command}\n) </dev/null 2>&1; printf '\\n{_MARK} %d\\n' $?\n" for command in commands)


def answers_of(answer: CommandResult) -> list[CommandResult]:
    """Return the answers that have come, in the order of the commands; each has all that its command wrote as its
    output and as its errors."""
    parts = _END_OF_ANSWER.split(answer.stdout)  # each text, its status; and at last one that was cut off
    return [CommandResult(int(status), text, text) for text, status in zip(parts[:-1:2], parts[1::2], strict=True)]
