"""How the supervisor starts processes: by itself, or by the fork server.

By itself it starts them without a copy of its own memory where it is told of xMML's compiled part
(`xmml_native._native.start_program`), which on a machine that runs thousands is most of what a start costs it. Without
that, and for a program at a terminal, it forks.

It is copied to sites beside the supervisor, and so needs nothing but Python's own library.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

#: The program of the fork server, for the descriptor of its socket, and what can be sent to it at once.
FORK_SERVER = "from xmml_native.fork_server import serve; serve({})"
LONGEST_PACKET_BYTES = 128 * 1024
#: How many processes the fork server is asked for before it has answered.
FORKS_AT_ONCE = 8
#: How the names of variables begin that differ from instance to instance.
ABOUT_ONE_INSTANCE = ("XMML_INSTANCE", "XMML_HOST")

PR_SET_PDEATHSIG = 1


class Starter:
    """Starts programs as children of this process, each the leader of a process group that dies with it.

    Args:
        restored: signals that they do not ignore; all that this process handles are among them.
        compiled: the folder of xMML's compiled part; empty: there is none.
    """

    def __init__(self, restored: Sequence[int], compiled: str = "") -> None:
        self.restored = restored
        self.environ = dict(os.environ)
        self.file_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.libc = ctypes.CDLL(None)
        self._without_copy = _start_program(compiled)

    def start(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]]) -> tuple[int, int | None]:
        """Start a process whose output goes to the ends of `pipes`.

        Returns:
            its process id, and a pipe for the error number if its program does not start (`None`: it has).

        Raises:
            OSError: it cannot be started.
        """
        if self._without_copy is None or order["terminal"]:
            return self._fork(order, pipes)
        env, reports = {**self.environ, **order["env"]}, None
        if "reports" in pipes:
            reports = pipes["reports"][1]
            env["XMML_REPORTS"] = str(reports)
        outputs = (pipes["stdout"][1], pipes["stderr"][1])
        what = (order["command"], env, order["folder"])
        with on_cpus(order):
            try:
                return self._without_copy(*what, outputs, reports, self.restored, self.file_limits), None
            except ValueError as error:
                raise OSError(errno.EINVAL, str(error)) from None

    def _fork(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]]) -> tuple[int, int]:
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            os.close(report_read)
            os.close(report_write)
            raise
        if pid == 0:
            try:
                self._become(order, pipes, parent)
            except (OSError, ValueError) as error:
                os.write(report_write, str(getattr(error, "errno", errno.EINVAL)).encode())
            finally:
                os._exit(127)
        os.close(report_write)
        return pid, report_read

    def _become(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]], parent: int) -> None:
        """Turn the forked child into the instance; comes back only by an exception."""
        signal.set_wakeup_fd(-1)
        os.setpgid(0, 0)
        if order["terminal"]:
            take_terminal(order["terminal"])
        else:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(pipes["stdout"][1], 1)
            os.dup2(pipes["stderr"][1], 2)
        for number in self.restored:
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_NOFILE, self.file_limits)
        self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        os.chdir(order["folder"])
        if order.get("cpus"):
            os.sched_setaffinity(0, order["cpus"])
        env = {**self.environ, **order["env"]}
        if "reports" in pipes:
            os.set_inheritable(pipes["reports"][1], True)
            env["XMML_REPORTS"] = str(pipes["reports"][1])
        os.execve(order["command"][0], order["command"], env)

    def start_fork_server(self, order: dict[str, Any]) -> ForkServer:
        """Start the fork server as the process of `order` would be started, less what belongs to its instance.

        Raises:
            OSError: it cannot be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.set_inheritable(theirs.fileno(), True)
        env = {name: value for name, value in order["env"].items() if not name.startswith(ABOUT_ONE_INSTANCE)}
        command = [order["command"][0], "-c", FORK_SERVER.format(theirs.fileno())]
        own = {"command": command, "env": env, "folder": ".", "terminal": None}
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _, exec_error = self._fork(own, {"stdout": (nowhere, nowhere), "stderr": (2, 2)})
        finally:
            os.close(nowhere)
        os.close(exec_error)  # that it did not start shows when its end of the socket closes
        theirs.close()
        return ForkServer(ours)

    def forking(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]], logs: dict[str, int]) -> Forking | None:
        """Return what the fork server is to be asked for; `None` if that is more than it can be told."""
        environ = {**self.environ, **order["env"]}
        packet = json.dumps({**order, "environ": environ, "parent": os.getpid()}).encode()
        return Forking(order, pipes, logs, packet) if len(packet) <= LONGEST_PACKET_BYTES else None


@contextlib.contextmanager
def on_cpus(order: dict[str, Any]) -> Iterator[None]:
    """Run on the CPUs of a process while it is started, so that it inherits them."""
    if not order.get("cpus"):
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, order["cpus"])
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


class Forking:
    """A process that the fork server is to start."""

    def __init__(
        self, order: dict[str, Any], pipes: dict[str, tuple[int, int]], logs: dict[str, int], packet: bytes
    ) -> None:
        self.order = order
        self.pipes = pipes
        self.logs = logs
        self.packet = packet


class ForkServer:
    """The supervisor's side of the fork server: what it was asked for and has not answered, and what comes then."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.socket.setblocking(False)
        self.asked: dict[str, Forking] = {}
        self.waiting: list[Forking] = []
        self.is_gone = False

    def ask(self) -> list[Forking]:
        """Ask for what waits, as far as the server keeps up: it must never wait for us while we wait for it.
        Return what it cannot be asked for."""
        refused: list[Forking] = []
        while self.waiting and len(self.asked) < FORKS_AT_ONCE:
            first = self.waiting[0]
            ends = [first.pipes[kind][1] for kind in ("stdout", "stderr", "error", "reports") if kind in first.pipes]
            try:
                socket.send_fds(self.socket, [first.packet], ends)
            except OSError as error:
                if self.asked or error.errno == errno.EAGAIN:
                    break  # it is busy, and answers; or it is gone, and that shows when we read
                refused.append(self.waiting.pop(0))  # no answer would have us ask again
            else:
                self.asked[first.order["name"]] = self.waiting.pop(0)
        return refused

    def answers(self) -> Iterator[dict[str, Any]]:
        """Give what it has answered so far; note if it is gone. Other trouble of the system passes: what is not read
        now is read when the selector tells of it again."""
        while not self.is_gone:
            try:
                packet = self.socket.recv(LONGEST_PACKET_BYTES)
            except ConnectionError:
                packet = b""
            except OSError:
                return
            if packet:
                yield json.loads(packet)
            else:
                self.is_gone = True

    def close(self) -> None:
        """Let it end."""
        self.is_gone = True
        self.socket.close()


def _start_program(compiled: str) -> Callable[..., int] | None:
    """Return `start_program` of the compiled part in a folder, without the package around it."""
    if not compiled:
        return None
    sys.path.append(compiled)
    try:
        from _native import start_program  # type: ignore[import-not-found]
    except ImportError:
        return None
    finally:
        sys.path.remove(compiled)
    found: Callable[..., int] = start_program
    return found


def take_terminal(path: str) -> None:
    """Make this process group the foreground of the terminal, so that a debugger gets the keys."""
    terminal = os.open(path, os.O_RDWR)
    os.tcsetpgrp(terminal, os.getpgrp())
    for number in (0, 1, 2):
        os.dup2(terminal, number)
