"""The supervisor: a small process between `xmml-run` and the instances, so that nothing outlives the run.

It is started with `python -I -S supervisor.py [COMPILED]` and imports little, because it must stay simple, start fast,
and run whatever happens to others:

* It is a child subreaper: a process that an instance leaves behind, also one that detached itself, becomes its child
  and stays findable.
* Each instance is the leader of a process group and gets SIGKILL when the supervisor dies.
* How it starts processes stands in `starting`, which it has beside it. Its one argument, if there is one, is the folder
  of xMML's compiled part, without which it takes somewhat longer.
* A program for the same interpreter may be started by the fork server (`fork`, see `xmml_native.fork_server`), which
  has one ready. Its processes are the supervisor's children like all others; if it is gone, they are started as others.
* Its standard input is a socket to `xmml-run`. When that closes, however it came about, everything ends: SIGTERM, a
  grace of `STOP_GRACE_S`, then SIGKILL.

On the socket, both ways, each message is one line of JSON. To the supervisor:

    {"do": "start", "name", "command", "env", "folder", "stdout", "stderr", "terminal", "hosted", "fork", "cpus"}
                                           without `cpus`, it may use the same as we
    {"do": "signal", "name", "signal"}     to the process group of the instance, or of what hosts it
    {"do": "watch", "name", "pid"}         this process, below that of the instance, is the one that has joined the run
    {"do": "remove", "path"}               this file, or folder, when everything has ended
    {"do": "quit"}                         end what is left, then the supervisor

From the supervisor:

    {"is": "started", "name", "pid", "process"}
    {"is": "refused", "name", "error", "errno"}    it was started, but its program could not be executed
    {"is": "output", "name", "stream", "text"}
    {"is": "vanished", "name"}             the process that was to be watched is gone; that of the instance may not be
    {"is": "unwritable", "name", "file", "error", "number"}
    {"is": "ended", "name", "status", "signal", "cpu_s", "memory_bytes", "process", "with_process", "no_memory"}

A process may host instances, whose names are in `hosted`: it tells by a pipe (XMML_REPORTS in its environment) what
they write and how they end, as lines of JSON that are passed on. When it ends, so have those that it said nothing
about. `process` is the name of the process that an instance shares, null for one that has its own; `with_process` says
that it ended because its process did. `no_memory`, if it is there, says for want of which memory it was killed, or
another process meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import selectors
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from xmml_executors.memory_group import MemoryGroup
    from xmml_executors.starting import Forking, ForkServer, Starter

#: How long instances have to end by themselves after the run has gone.
STOP_GRACE_S = 1.0
#: How long killed processes may take to disappear (a process in the kernel cannot be hurried).
REAP_LIMIT_S = 2.0
#: While more than this waits to be told to `xmml-run`, instances' output stays in their pipes.
BACKLOG_LIMIT_BYTES = 4 * 1024 * 1024
#: Longer lines are passed on in pieces.
LONGEST_LINE_BYTES = 64 * 1024
READ_BYTES = 64 * 1024

PR_SET_CHILD_SUBREAPER = 36

#: What the supervisor ignores: it ends when it is told to, or when `xmml-run` is gone, not with the keys of a terminal.
IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTOU, signal.SIGPIPE)
#: What an instance gets back: these, what the supervisor handles, and what Python itself ignores.
RESTORED = (*IGNORED, signal.SIGTERM, signal.SIGCHLD, signal.SIGXFSZ)


class Instance:
    """One started process and its captured streams. `exec_error` is a pipe that holds why its program did not start
    (`None`: it has), `hosted` the instances in it that have not ended."""

    def __init__(self, name: str, pid: int, exec_error: int | None, hosted: Iterable[str]) -> None:
        self.name = name
        self.pid = pid
        self.exec_error = exec_error
        self.hosted = dict.fromkeys(hosted)
        self.streams: list[Stream] = []


class Stream:
    """One captured stream: from a pipe to a log file and, line by line, to `xmml-run`. The kind `reports` is what a
    process tells about the instances in it; it has no log."""

    def __init__(self, instance: str, kind: str, pipe: int, log: int | None, path: str) -> None:
        self.instance = instance
        self.kind = kind
        self.pipe = pipe
        self.log: int | None = log
        self.path = path
        self.rest = b""


def let_go(pipes: dict[str, tuple[int, int]], logs: dict[str, int]) -> None:
    """Close what was opened for a process that could not be started."""
    for end in (*(end for ends in pipes.values() for end in ends), *logs.values()):
        os.close(end)


class Supervisor:
    """Starts, captures, signals, reaps."""

    def __init__(self, control: socket.socket, memory: MemoryGroup, starter: Starter) -> None:
        self.control = control
        self.memory = memory
        self.starter = starter
        self.control.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.incoming = b""
        self.outgoing = bytearray()
        self.by_pid: dict[int, Instance] = {}
        self.by_name: dict[str, Instance] = {}
        self.remove: list[str] = []
        self.paused = False
        self.quitting = False
        self.fork_server: ForkServer | None = None
        self.unclaimed: dict[int, tuple[int, resource.struct_rusage]] = {}

    def run(self) -> None:
        """Serve until told to quit, or until `xmml-run` is gone."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Two pipes and two logs for each instance.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.on_terminate)
        self.selector.register(wake_read, selectors.EVENT_READ, lambda _: self.on_wake(wake_read))
        self.selector.register(self.control, selectors.EVENT_READ, self.on_control)
        try:
            while not self.quitting:
                for key, mask in self.selector.select():
                    key.data(mask)
        finally:
            self.end_everything()
            for path in self.remove:
                remove(path)

    def on_terminate(self, *_: object) -> None:
        """SIGTERM: end everything."""
        self.quitting = True

    def on_wake(self, pipe: int) -> None:
        """A signal has come; SIGCHLD is what there is to do something about."""
        with contextlib.suppress(BlockingIOError):
            os.read(pipe, 4096)
        self.reap()

    def on_control(self, mask: int) -> None:
        """The socket takes or holds bytes."""
        if mask & selectors.EVENT_WRITE:
            self.flush()
        if not mask & selectors.EVENT_READ:
            return
        try:
            chunk = self.control.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            if why := self.memory.ran_out():
                os.write(2, f"xmml-run was killed: {why}\n".encode())
            self.quitting = True
            return
        *lines, self.incoming = (self.incoming + chunk).split(b"\n")
        for line in lines:
            self.obey(json.loads(line))

    def obey(self, order: dict[str, Any]) -> None:
        """Carry out one order."""
        match order["do"]:
            case "start":
                self.start(order)
            case "signal":
                self.signal_group(self.by_name.get(order["name"]), order["signal"])
            case "watch":
                self.watch_joined(order["name"], order["pid"])
            case "remove":
                self.remove.append(order["path"])
            case "quit":
                self.quitting = True

    # --- starting ---------------------------------------------------------------------------------------------------

    def start(self, order: dict[str, Any]) -> None:
        """Start a process, captured or at the terminal, and report it."""
        name, hosted = order["name"], order["hosted"]
        pipes: dict[str, tuple[int, int]] = {}
        logs: dict[str, int] = {}
        try:
            for kind in () if order["terminal"] else ("stdout", "stderr"):
                logs[kind] = os.open(order[kind], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                pipes[kind] = os.pipe2(os.O_CLOEXEC)
            if hosted:
                pipes["reports"] = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            file = error.filename or order["folder"]
            let_go(pipes, logs)
            self.tell({"is": "unwritable", "name": name, "file": file, "error": error.strerror, "number": error.errno})
            return
        if not order["fork"] or not self.have_forked(order, pipes, logs):
            self.start_directly(order, pipes, logs)

    def start_directly(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]], logs: dict[str, int]) -> None:
        """Start a process without the fork server."""
        try:
            pid, exec_error = self.starter.start(order, pipes)
        except OSError as error:
            # No descriptor or no process is left: the run hears of it, and ends.
            let_go(pipes, logs)
            code = errno.errorcode.get(error.errno or 0, "")
            for each in (*order["hosted"], order["name"]):
                self.tell({"is": "refused", "name": each, "error": error.strerror, "errno": code})
            return
        self.take_up(order, pid, exec_error, pipes, logs)

    def have_forked(self, order: dict[str, Any], pipes: dict[str, tuple[int, int]], logs: dict[str, int]) -> bool:
        """Have the fork server start a process; return False if it cannot."""
        if self.fork_server is None:
            try:
                self.fork_server = self.starter.start_fork_server(order)
            except OSError:
                return False
            self.selector.register(self.fork_server.socket, selectors.EVENT_READ, lambda _: self.on_forked())
        if (forking := self.starter.forking(order, pipes, logs)) is None or self.fork_server.is_gone:
            return False
        try:
            pipes["error"] = os.pipe2(os.O_CLOEXEC)
        except OSError:
            return False
        self.fork_server.waiting.append(forking)
        self.ask_fork_server()
        return True

    def ask_fork_server(self) -> None:
        """Ask the fork server for what waits, and start otherwise what it cannot be asked for."""
        assert self.fork_server is not None
        for left in self.fork_server.ask():
            self.start_instead(left)

    def start_instead(self, left: Forking) -> None:
        """Start without the fork server what it was to start."""
        for end in left.pipes.pop("error"):
            os.close(end)
        self.start_directly(left.order, left.pipes, left.logs)

    def on_forked(self) -> None:
        """The fork server has started processes, or is gone."""
        server = self.fork_server
        assert server is not None
        for answer in server.answers():
            forked = server.asked.pop(answer["name"])
            self.ask_fork_server()
            exec_error, write_end = forked.pipes.pop("error")
            os.close(write_end)
            self.take_up(forked.order, answer["pid"], exec_error, forked.pipes, forked.logs)
            status = self.unclaimed.pop(answer["pid"], None)
            if status is not None:
                self.account(self.by_pid[answer["pid"]], *status)
        if server.is_gone:
            self.selector.unregister(server.socket)
            server.close()
            for left in (*server.asked.values(), *server.waiting):
                self.start_instead(left)
            server.asked.clear()
            server.waiting.clear()
        if not server.asked:
            self.unclaimed.clear()

    def take_up(
        self,
        order: dict[str, Any],
        pid: int,
        exec_error: int | None,
        pipes: dict[str, tuple[int, int]],
        logs: dict[str, int],
    ) -> None:
        """From now on care for a process that was started, and report it."""
        name, hosted = order["name"], order["hosted"]
        for _, write_end in pipes.values():
            os.close(write_end)
        instance = self.by_pid[pid] = self.by_name[name] = Instance(name, pid, exec_error, hosted)
        self.by_name.update(dict.fromkeys(hosted, instance))
        for kind, (read_end, _) in pipes.items():
            os.set_blocking(read_end, False)
            stream = Stream(name, kind, read_end, logs.get(kind), order.get(kind, ""))
            instance.streams.append(stream)
            if not self.paused:
                self.watch(instance, stream)
        self.tell({"is": "started", "name": name, "pid": pid, "process": None})
        for each in hosted:
            self.tell({"is": "started", "name": each, "pid": pid, "process": name})

    # --- output -----------------------------------------------------------------------------------------------------

    def watch(self, instance: Instance, stream: Stream) -> None:
        """Read a stream whenever something is in it."""
        self.selector.register(stream.pipe, selectors.EVENT_READ, lambda _: self.on_output(instance, stream))

    def on_output(self, instance: Instance, stream: Stream) -> None:
        """A pipe holds something, or has ended."""
        if stream in instance.streams and not self.copy_once(stream):
            self.close_stream(instance, stream)

    def copy_once(self, stream: Stream) -> bool:
        """Move what is in the pipe; return False at its end."""
        try:
            chunk = os.read(stream.pipe, READ_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        self.write_log(stream, chunk)
        *lines, stream.rest = (stream.rest + chunk).split(b"\n")
        if stream.kind == "reports":
            for line in lines:
                self.pass_on(stream, line)
            return True
        if len(stream.rest) > LONGEST_LINE_BYTES:
            lines.append(stream.rest)
            stream.rest = b""
        self.tell_lines(stream, lines)
        return True

    def write_log(self, stream: Stream, chunk: bytes) -> None:
        """Write to the log; the first failure is reported, and the log given up."""
        if stream.log is None:
            return
        try:
            while chunk:
                chunk = chunk[os.write(stream.log, chunk) :]
        except OSError as error:
            os.close(stream.log)
            stream.log = None
            self.tell(
                {
                    "is": "unwritable",
                    "name": stream.instance,
                    "file": stream.path,
                    "error": error.strerror,
                    "number": error.errno,
                }
            )

    def tell_lines(self, stream: Stream, lines: list[bytes]) -> None:
        """Pass lines on."""
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            self.tell({"is": "output", "name": stream.instance, "stream": stream.kind, "text": text})

    def pass_on(self, stream: Stream, line: bytes) -> None:
        """Pass on what a process reports about an instance in it."""
        process = self.by_name[stream.instance]
        try:
            report = json.loads(line)
            name = report["name"]
        except (ValueError, TypeError, KeyError):
            return  # somebody else has found the pipe
        if name not in process.hosted:
            return
        if report["is"] == "ended":
            del process.hosted[name], self.by_name[name]
            report.update(signal=None, memory_bytes=0, process=process.name, with_process=False)
        self.tell(report)

    def close_stream(self, instance: Instance, stream: Stream) -> None:
        """Pass on an unfinished last line, and close."""
        instance.streams.remove(stream)
        with contextlib.suppress(KeyError):
            self.selector.unregister(stream.pipe)
        os.close(stream.pipe)
        if stream.rest and stream.kind != "reports":
            self.tell_lines(stream, [stream.rest])
        if stream.log is not None:
            os.close(stream.log)

    # --- processes below an instance's own --------------------------------------------------------------------------

    def watch_joined(self, name: str, pid: int) -> None:
        """Tell when the process that has joined as an instance is gone, if it is not the instance's own, whose end is
        told anyway: it may be below a script that lives on.

        It is told by its number, which may be another's: in a container, or on another node. So it must be below the
        process of the instance; if it has ended, and nobody had waited for that before, that is told at once.
        """
        instance = self.by_name.get(name)
        if instance is None or pid == instance.pid or pid not in descendants(instance.pid, zombies=True):
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.tell({"is": "vanished", "name": name})
            return
        except OSError:
            return
        self.selector.register(descriptor, selectors.EVENT_READ, lambda _: self.on_vanished(name, descriptor))

    def on_vanished(self, name: str, descriptor: int) -> None:
        """A process that was watched has ended."""
        self.selector.unregister(descriptor)
        os.close(descriptor)
        self.tell({"is": "vanished", "name": name})

    # --- ending -----------------------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Account for every process that has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            instance = self.by_pid.get(pid)
            if instance is not None:
                self.account(instance, status, usage)
            elif self.fork_server is not None and self.fork_server.asked:
                self.unclaimed[pid] = (status, usage)  # perhaps one that the fork server has not told of yet

    def account(self, instance: Instance, status: int, usage: resource.struct_rusage) -> None:
        """Report the end of an instance, after everything it has written."""
        for stream in list(instance.streams):
            self.drain(instance, stream)
        del self.by_pid[instance.pid]
        failure = 0
        if instance.exec_error is not None:
            failure = int(os.read(instance.exec_error, 16) or b"0")
            os.close(instance.exec_error)
        text, code = os.strerror(failure), errno.errorcode.get(failure, "")
        ended: dict[str, Any] = {
            "is": "ended",
            "status": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        }
        # A shell whose program was killed ends with 128 and the number of the signal.
        was_killed = signal.SIGKILL in (ended["signal"], (ended["status"] or 0) - 128)
        no_memory = self.memory.ran_out() if was_killed else self.memory.ran_out_beside() if status != 0 else ""
        if no_memory:
            ended["no_memory"] = no_memory
        used = {"cpu_s": round(usage.ru_utime + usage.ru_stime, 6), "memory_bytes": usage.ru_maxrss * 1024}
        for name in (*instance.hosted, instance.name):
            del self.by_name[name]
            process = None if name == instance.name else instance.name
            if failure:
                self.tell({"is": "refused", "name": name, "error": text, "errno": code})
            else:
                own = {"cpu_s": 0.0, "memory_bytes": 0} if process else used
                self.tell({**ended, "name": name, **own, "process": process, "with_process": True})

    def drain(self, instance: Instance, stream: Stream) -> None:
        """Copy what an ended instance has left in a pipe; a child of it that still holds it open is not waited for."""
        while is_readable(stream.pipe) and self.copy_once(stream):
            pass
        self.close_stream(instance, stream)

    def signal_group(self, instance: Instance | None, number: int) -> None:
        """Send a signal to everything in the process group of an instance, if it still runs."""
        if instance is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(instance.pid, number)

    def end_everything(self) -> None:
        """Leave no process behind: SIGTERM to the groups, a grace, SIGKILL to every descendant until there is none."""
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        if self.fork_server is not None:
            self.fork_server.close()
        for instance in list(self.by_pid.values()):
            self.signal_group(instance, signal.SIGTERM)
        self.wait_for_children(STOP_GRACE_S, until=lambda: not self.by_pid)
        deadline = time.monotonic() + REAP_LIMIT_S
        while time.monotonic() < deadline and (victims := descendants(os.getpid())):
            for pid in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.wait_for_children(0.1, until=lambda: not descendants(os.getpid()))
        self.reap()
        self.control.settimeout(0.5)
        with contextlib.suppress(OSError):
            self.control.sendall(self.outgoing)

    def wait_for_children(self, limit_s: float, until: Callable[[], bool]) -> None:
        """Reap until `until` holds, at most for `limit_s`."""
        deadline = time.monotonic() + limit_s
        self.reap()
        while not until() and (left := deadline - time.monotonic()) > 0:
            signal.sigtimedwait([signal.SIGCHLD], left)
            self.reap()

    # --- telling ----------------------------------------------------------------------------------------------------

    def tell(self, what: dict[str, Any]) -> None:
        """Send a report; what the socket does not take at once goes later."""
        self.outgoing += json.dumps(what).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes; slow down the instances while it takes too little."""
        try:
            while self.outgoing:
                sent = self.control.send(self.outgoing)
                del self.outgoing[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.outgoing.clear()
            self.quitting = True
        if self.quitting:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outgoing else 0)
        if self.selector.get_key(self.control).events != wanted:
            self.selector.modify(self.control, wanted, self.on_control)
        if (len(self.outgoing) > BACKLOG_LIMIT_BYTES) != self.paused:
            self.pause(not self.paused)

    def pause(self, paused: bool) -> None:
        """Leave output in the instances' pipes (which makes them wait), or go on reading it."""
        self.paused = paused
        for instance in self.by_pid.values():
            for stream in instance.streams:
                if paused:
                    self.selector.unregister(stream.pipe)
                else:
                    self.watch(instance, stream)


def remove(path: str) -> None:
    """Remove a file, or a folder with everything in it."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass


def is_readable(pipe: int) -> bool:
    """Whether a read of the pipe would return at once."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(0))


def descendants(root: int, *, zombies: bool = False) -> list[int]:
    """Return the processes below `root`, without zombies if they are not asked for."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if zombies or fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def main() -> None:
    """Supervise for the process at the other end of standard input."""
    # An isolated interpreter does not look for modules where the program lies.
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    from memory_group import MemoryGroup  # type: ignore[import-not-found]
    from starting import Starter  # type: ignore[import-not-found]

    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Supervisor(control, MemoryGroup(), Starter(RESTORED, *sys.argv[1:])).run()


if __name__ == "__main__":
    main()
