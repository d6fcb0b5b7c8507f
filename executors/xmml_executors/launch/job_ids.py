"""The number that a queue gives a job, noted at the site before its answer travels.

A launcher that is killed, or cut off, while it submits has not heard the number. Whoever goes on with the run or cleans
up after it finds it in the job's folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from xmml_sites.batched_queries import answers_of, batched
from xmml_sites.command_result import CommandResult

#: Holds what the queue has answered, in the folder of each job; empty while the queue is being asked.
ANSWER = "submitted"
#: For how long somebody who looks waits for a queue that is being asked.
ASKED_FOR_S = 15
_PAUSES_PER_S = 5


def noting(command: str, folders: Sequence[str]) -> str:
    """Return a command that submits, and notes what the queue has answered.

    Args:
        command: submits.
        folders: of the jobs that are submitted by it; each gets the same answer.
    """
    files = [shlex.quote(f"{folder}/{ANSWER}") for folder in folders]
    asking = "; ".join(f": > {file}" for file in files)
    answered = "; ".join(
        f"""printf '%s\\n' "$xmml_answer" > {file}.part && mv -f {file}.part {file}""" for file in files
    )
    refused = f"rm -f {' '.join(files)}"
    return (
        f"{asking}; xmml_answer=$({command}\n); xmml_status=$?; "
        f"if [ $xmml_status = 0 ]; then {answered}; else {refused}; fi; "
        """printf '%s\\n' "$xmml_answer"; exit $xmml_status"""
    )


def query_noted_ids(folders: Sequence[str]) -> str:
    """Return a command that tells what queues have answered about jobs, by their folders; `noted` reads its answer."""
    return batched([_ask(shlex.quote(f"{folder}/{ANSWER}")) for folder in folders])


def _ask(file: str) -> str:
    return (
        f"n=0; while [ -e {file} ] && [ ! -s {file} ] && [ $n -lt {ASKED_FOR_S * _PAUSES_PER_S} ]; "
        f"do sleep {1 / _PAUSES_PER_S:g}; n=$((n + 1)); done; "
        f"if [ -s {file} ]; then head -c 4096 {file}; else false; fi"
    )


def noted(answer: CommandResult) -> list[CommandResult | None]:
    """Return what the queue has answered about each job; `None`: it was never asked, or has not taken it."""
    return [each if each.status == 0 else None for each in answers_of(answer)]
