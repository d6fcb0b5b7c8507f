"""A command on this machine: started, looked after, interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from xmml.late_dataclass import dataclass

#: How long a command that was interrupted may take to clean up.
INTERRUPTED_S = 30.0
#: The same for one that has to release what it holds at other sites, where it waits for them as long as it sees fit.
RELEASED_S = 600.0
#: How long it then has to end before it is killed.
TERMINATED_S = 5.0


@dataclass(frozen=True)
class OutputFile:
    """A file that takes output; with `appends` behind what it holds."""

    path: Path
    appends: bool = False


def output_files(log: Path, redirected: Mapping[str, OutputFile]) -> tuple[Path, Path]:
    """Return the files that take standard output and standard error, ready for output to be added to them.

    Args:
        log: takes what is not redirected.
        redirected: `stdout`, `stderr`: files that take them instead.

    Raises:
        OSError: a file cannot be written.
    """
    files = [redirected.get(name, OutputFile(log)) for name in ("stdout", "stderr")]
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        with open(file.path, "ab" if file.appends else "wb"):
            pass
    return files[0].path, files[1].path


class LocalProcess:
    """A running command with its own process group, so that Ctrl-C reaches it from its executor only, once.

    Attributes:
        errors: the file that takes its standard error.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        redirected: Mapping[str, OutputFile] | None = None,
        env: Mapping[str, str] | None = None,
        has_sites: bool = False,
    ) -> None:
        """Start it.

        Args:
            command: the program and its arguments.
            log: where its output goes.
            redirected: `stdout`, `stderr`: files that take them instead.
            env: added to the environment.
            has_sites: it holds something at other sites, which only it can release.

        Raises:
            OSError: it cannot be started, or a file not be written.
        """
        stdout, stderr = output_files(log, redirected or {})
        self.errors = stderr
        self._has_sites = has_sites
        with open(stdout, "ab") as out, contextlib.nullcontext(out) if stderr == stdout else open(stderr, "ab") as err:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def status(self) -> int | None:
        """Return its exit status, negative for the number of a signal; `None`: it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does; if it does not, it is terminated and killed. Does not wait."""
        self._signal(signal.SIGINT)
        threading.Thread(target=self._see_to_its_end, daemon=True).start()

    def wait(self) -> int:
        """Wait for its end, after `interrupt`."""
        self._see_to_its_end()
        return self._process.wait()

    def leave(self) -> None:
        """Nobody waits for it any more, after `interrupt`: it is killed, or releases its sites by itself."""
        if not self._has_sites:
            self._signal(signal.SIGKILL)

    def _see_to_its_end(self) -> None:
        interrupted_s = RELEASED_S if self._has_sites else INTERRUPTED_S
        for limit_s, number in ((interrupted_s, signal.SIGTERM), (TERMINATED_S, signal.SIGKILL)):
            try:
                self._process.wait(limit_s)
                return
            except subprocess.TimeoutExpired:
                self._signal(number)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.poll() is None:
                os.killpg(self._process.pid, number)
