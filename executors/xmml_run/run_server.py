"""Many runs in one process: `python -m xmml_run.run_server FOLDER`. What belongs to no run alone, such as the logs of
relays, lies in the folder.

Each line of standard input is a request, a JSON object:

    {"run": NAME, "arguments": [...], "stdout": FILE, "stderr": FILE}   carry out `xmml-run` with these arguments; its
                                                                        output is added to the files
    {"stop": NAME}                                                      stop a run, as Ctrl-C stops `xmml-run`

Each line of standard output tells that a run has ended: `{"ended": NAME, "status": EXIT_STATUS}`. When the requests
end, the process carries out the runs that have begun, and ends with the last one.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from xmml_executors.launch.site.shared_folder import SharedFolder
from xmml_executors.launch.site_pool import SitePool
from xmml_executors.limits import explained, is_reached
from xmml_executors.outcome import ExitStatus
from xmml_executors.stop_signals import StopRequests, on_stop

from xmml.late_dataclass import dataclass
from xmml_run.run_command import run_model

#: How many descriptors the process may have open, as far as it is allowed to.
MOST_DESCRIPTORS = 65_536


@dataclass(frozen=True)
class SharedProcess:
    """What a run has to know of the process that it shares with others.

    Attributes:
        planning: held while a run is planned, since planning takes all of a processor.
        stop: stops this run.
        pool: the logins to sites.
    """

    planning: threading.Lock
    stop: StopRequests
    pool: SitePool


class ThreadOutput(io.TextIOBase):
    """An output stream of the process that writes to a file of its own for each thread that has one."""

    def __init__(self, usual: TextIO) -> None:
        self._usual = usual
        self._of_thread = threading.local()

    @contextlib.contextmanager
    def to(self, file: TextIO) -> Iterator[None]:
        """Have what this thread writes go to a file, as long as the block lasts."""
        self._of_thread.file = file
        try:
            yield
        finally:
            del self._of_thread.file

    def write(self, text: str) -> int:
        """Write text."""
        return self._file.write(text)

    def flush(self) -> None:
        """Flush the file of this thread."""
        self._file.flush()

    @property
    def _file(self) -> TextIO:
        file: TextIO = getattr(self._of_thread, "file", self._usual)
        return file


class RunServer:
    """Carries out runs, each in a thread of its own."""

    def __init__(self, folder: Path, on_ended: Callable[[str, int], object]) -> None:
        """
        Args:
            folder: takes a folder for what belongs to no run alone, such as the logs of relays.
            on_ended: is called, in the thread of a run, with its name and its exit status.
        """
        self._on_ended = on_ended
        self._planning = threading.Lock()
        self._pool = SitePool(SharedFolder(folder))
        self._runs: dict[str, tuple[threading.Thread, StopRequests]] = {}
        self._changing = threading.Lock()
        self._out, self._err = ThreadOutput(sys.stdout), ThreadOutput(sys.stderr)
        sys.stdout, sys.stderr = self._out, self._err

    def begin(self, name: str, arguments: Sequence[str], stdout: Path, stderr: Path) -> None:
        """Begin a run.

        Args:
            name: by which it is known; no other run has it while it goes on.
            arguments: of `xmml-run`.
            stdout, stderr: files that its output is added to.
        """
        with contextlib.ExitStack() as undoing:
            try:
                stop = StopRequests()
                undoing.callback(stop.close)
                thread = threading.Thread(
                    target=self._carry_out, args=(name, arguments, stdout, stderr, stop), name=name
                )
                with self._changing:
                    self._runs[name] = thread, stop
                undoing.callback(self._runs.pop, name)
                thread.start()
                undoing.pop_all()
            except (OSError, RuntimeError) as error:  # the other runs go on
                _refuse(stderr, f"xmml-run: the run cannot be begun beside so many others: {error}")
                self._on_ended(name, ExitStatus.SITE_FAILED)

    def stop(self, name: str) -> None:
        """Stop a run, as Ctrl-C does; nothing happens if it has ended."""
        with self._changing:
            if name in self._runs:
                self._runs[name][1].request()

    def stop_all(self) -> None:
        """Stop every run."""
        for name in list(self._runs):
            self.stop(name)

    def close(self) -> None:
        """Wait until every run has ended, and close the connections to sites."""
        while self._runs:
            with contextlib.suppress(KeyError, StopIteration):
                self._runs[next(iter(self._runs))][0].join()
        self._pool.close()

    def _carry_out(self, name: str, arguments: Sequence[str], stdout: Path, stderr: Path, stop: StopRequests) -> None:
        status: int = ExitStatus.SITE_FAILED
        try:
            with contextlib.ExitStack() as files:
                out = files.enter_context(_opened(stdout))
                err = out if stderr == stdout else files.enter_context(_opened(stderr))
                with self._out.to(out), self._err.to(err):
                    status = _status_of(arguments, SharedProcess(self._planning, stop, self._pool))
        except OSError as error:
            print(f"xmml-run: {error.filename}: {error.strerror}", file=sys.stderr)
        finally:
            with self._changing:
                del self._runs[name]
            stop.close()
            self._on_ended(name, status)


def _refuse(path: Path, text: str) -> None:
    """Write why a run is not begun into the file of its errors, or, if that cannot be, into those of this process."""
    try:
        with _opened(path) as file:
            print(text, file=file)
    except OSError:
        print(text, file=sys.stderr)


def _opened(path: Path) -> TextIO:
    return open(path, "a", encoding="utf-8", errors="backslashreplace", buffering=1)


def _status_of(arguments: Sequence[str], shared: SharedProcess) -> int:
    """Carry out `xmml-run`, and return its exit status. Whatever goes wrong ends this run alone."""
    try:
        return run_model(arguments, shared)
    except SystemExit as error:  # the options are wrong; what was expected has been printed
        return error.code if isinstance(error.code, int) else ExitStatus.USAGE
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and not is_reached(error):
            traceback.print_exc()
        else:
            print(f"xmml-run: {explained(error)}", file=sys.stderr)
        return ExitStatus.SITE_FAILED
    except Exception:
        traceback.print_exc()
        return ExitStatus.SITE_FAILED


def serve(folder: Path, requests: Iterable[str], answers: TextIO) -> None:
    """Carry out the runs that are requested, line by line, until there are no more requests and no more runs."""
    writing = threading.Lock()

    def on_ended(name: str, status: int) -> None:
        with writing, contextlib.suppress(OSError):  # nobody may wait for the answer any more
            answers.write(json.dumps({"ended": name, "status": int(status)}) + "\n")
            answers.flush()

    server = RunServer(folder, on_ended)
    with on_stop(server.stop_all):
        for line in requests:
            request: Mapping[str, Any] = json.loads(line)
            if "stop" in request:
                server.stop(request["stop"])
            else:
                files = Path(request["stdout"]), Path(request["stderr"])
                server.begin(request["run"], request["arguments"], *files)
        server.close()


if __name__ == "__main__":
    # A run takes some twenty descriptors. Its programs inherit the limit: it is no larger than some of them can bear.
    usual, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(usual, min(limit, MOST_DESCRIPTORS)), limit))
    # Answers have a descriptor of their own: what a library prints must not be taken for one.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        serve(Path(sys.argv[1]), sys.stdin, answers)
