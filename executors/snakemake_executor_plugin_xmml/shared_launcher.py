"""One process that carries out all coupled runs of a workflow over sites (`xmml_run.run_server`)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from snakemake_executor_plugin_xmml.local_process import RELEASED_S, OutputFile, output_files

#: How the process is started, with the interpreter that Snakemake runs in.
RUN_SERVER = (sys.executable, "-m", "xmml_run.run_server")
#: How long it may take to close the connections to sites when all runs have ended.
CLOSED_WITHIN_S = 30.0


class SharedLauncher:
    """Begins runs in one process, which is started with the first of them, and again if it was killed."""

    def __init__(self, folder: Path) -> None:
        """
        Args:
            folder: for what belongs to no run alone, such as the logs of relays.
        """
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._runs: dict[str, SharedRun] = {}
        self._changing = threading.Lock()
        self._count = 0

    def begin(self, arguments: Sequence[str], log: Path, redirected: Mapping[str, OutputFile]) -> SharedRun:
        """Begin a run.

        Args:
            arguments: of `xmml-run`.
            log: where its output goes.
            redirected: `stdout`, `stderr`: files that take them instead.

        Raises:
            OSError: the process cannot be started, or a file not be written.
        """
        stdout, stderr = output_files(log, redirected)
        with self._changing:
            if self._process is None or self._process.poll() is not None:
                self._process = self._started()
            self._count += 1
            run = self._runs[str(self._count)] = SharedRun(self, self._process, str(self._count), stderr)
        files = {"stdout": str(stdout), "stderr": str(stderr)}
        self._send(run.process, {"run": run.name, "arguments": list(arguments), **files})
        return run

    def stop(self, run: SharedRun) -> None:
        """Ask a run to end, as Ctrl-C does."""
        self._send(run.process, {"stop": run.name})

    def close(self) -> None:
        """Begin no more runs. The process ends when all have ended; if some have not, it is not waited for."""
        with self._changing:
            process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            if not self._runs:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(CLOSED_WITHIN_S)

    def _started(self) -> subprocess.Popen[str]:
        command = [*RUN_SERVER, str(self._folder)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        threading.Thread(target=self._read, args=(process,), daemon=True).start()
        return process

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Note how runs end; when the process is gone, all that it has begun have ended with it."""
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            self._end(answer["ended"], answer["status"])
        status = process.wait()
        with self._changing:
            begun = [run for run in self._runs.values() if run.process is process]
        for run in begun:
            self._end(run.name, status)

    def _end(self, name: str, status: int) -> None:
        with self._changing:
            run = self._runs.pop(name, None)
        if run is not None:
            run.end(status)

    def _send(self, process: subprocess.Popen[str], request: Mapping[str, object]) -> None:
        """Send a request. That the process is gone shows where its answers are read."""
        assert process.stdin is not None
        with self._changing, contextlib.suppress(OSError, ValueError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()


class SharedRun:
    """A run in the shared process, looked after as if it had a process of its own (see `LocalProcess`).

    Attributes:
        process: that carries it out.
        errors: the file that takes its standard error.
    """

    def __init__(self, launcher: SharedLauncher, process: subprocess.Popen[str], name: str, errors: Path) -> None:
        self.process, self.name, self.errors = process, name, errors
        self._launcher = launcher
        self._status: int | None = None
        self._ended = threading.Event()

    def end(self, status: int) -> None:
        """Note that it has ended."""
        self._status = status
        self._ended.set()

    def status(self) -> int | None:
        """Return its exit status, negative for the number of the signal that ended the process; `None`: it runs."""
        return self._status

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does. Does not wait."""
        self._launcher.stop(self)

    def wait(self) -> None:
        """Wait for its end, after `interrupt`, for as long as releasing its sites may take."""
        self._ended.wait(RELEASED_S)

    def leave(self) -> None:
        """Nobody waits for it any more, after `interrupt`: it releases its sites by itself."""
