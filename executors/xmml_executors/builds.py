"""Building the programs of a plan before anything starts: one command after the other, through the supervisor."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from xmml_planner import Build, Plan, missing_programs

from xmml_executors.failure import one_line
from xmml_executors.outcome import ExitStatus, Outcome


def build_name(number: int) -> str:
    """The name of a build's process, for output and logs."""
    return f"build {number}"


class Builds:
    """The builds of a plan, one at a time.

    A build that is over in a moment and has nothing to complain of (usually there was nothing to do) is not shown.

    Attributes:
        current: the number of the one to run now; `None` when all are made or one failed.
        is_shown: whether people see what the present one writes.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last_words: deque[str] = deque(maxlen=200)
        self._unshown: list[tuple[str, str]] = []
        self.is_shown = False
        self.current: int | None = 1 if plan.builds else None
        self.failure: Outcome | None = None

    @property
    def build(self) -> Build:
        """The build to run now."""
        assert self.current is not None
        return self._plan.builds[self.current - 1]

    def command(self) -> list[str]:
        """The command to run now."""
        return ["/bin/sh", "-c", self.build.command]

    def on_output(self, line: str, stream: str) -> None:
        """The build has written a line."""
        self._last_words.append(line)
        self._unshown.append((stream, line))

    def show(self) -> list[tuple[str, str]]:
        """Return the streams and lines that nobody has seen yet; from now on every line is to be shown."""
        self.is_shown = True
        lines, self._unshown = self._unshown, []
        return lines

    def on_ended(self, status: int | None, log: Path) -> None:
        """The build has ended: go on to the next, or note the failure."""
        assert self.current is not None
        if status != 0:
            said = _most_telling(self._last_words)
            how = f"ended with exit status {status}" if status is not None else "was killed"
            text = (
                f'{self.build.instances[0]} failed: its build "{self.build.command}" (at {self.build.position}) {how}'
            )
            reason = one_line(f"{text}: {said}" if said else text)
            self.failure = Outcome(ExitStatus.INSTANCE_FAILED, reason, self.build.instances[0], str(log))
            self.current = None
            return
        self._last_words.clear()
        self._unshown.clear()
        self.is_shown = False
        self.current = self.current + 1 if self.current < len(self._plan.builds) else None


def _most_telling(lines: Sequence[str]) -> str:
    """Return the first line that speaks of an error, else the last that is not empty."""
    errors = [line for line in lines if "error" in line.lower()]
    spoken = [line for line in lines if line.strip()]
    return (errors[:1] or spoken[-1:] or [""])[0]


def missing_after_builds(plan: Plan) -> Outcome | None:
    """Return the outcome of a run whose builds did not make a program, or `None` if all are there."""
    problems = missing_programs(plan)
    if not problems:
        return None
    problem = problems[0]
    help = f"; {problem.help}" if problem.help else ""
    told = f"{problem.position}: error[{problem.code}]: {problem.message}{help}"
    return Outcome(ExitStatus.MODEL_ERROR, one_line(told))
