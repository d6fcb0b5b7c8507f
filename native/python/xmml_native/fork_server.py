"""A process that has an interpreter ready, and forks it for each program that is to be started.

Starting an interpreter and importing this package takes tens of milliseconds, forking one that has done it about one.
The supervisor starts ``python -c "from xmml_native.fork_server import serve; serve(SOCKET)"`` and sends a packet of
JSON for each program:

    {"name", "command", "parent", "environ", "cpus"}

with the descriptors of its standard output, its standard error, a pipe for the number of the error if it cannot be
started, and its working folder; for a process that hosts instances also the pipe of its reports. The answer is
``{"name", "pid"}``. The new process is a child of the supervisor, the leader of a process group, and is killed when the
supervisor dies. Its program finds what it would find if the interpreter had been started for it; only the command line
that ``ps`` shows is that of this process.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time

import xmml_native  # noqa: F401 - what most programs import first
from xmml_native._native import die_with_parent, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

#: Longest packet.
PACKET_BYTES = 256 * 1024
#: Most descriptors that come with one.
DESCRIPTORS = 5
#: How long the process between the server and a program may take to disappear.
ORPHAN_LIMIT_S = 10.0


def serve(control: int) -> None:
    """Serve until the supervisor closes its end; in a forked process, run the program and return when it has ended."""
    requests = socket.socket(fileno=control)
    gc.collect()
    gc.freeze()  # so that collections in the programs do not copy the pages of what was there before
    while True:
        packet, descriptors, _, _ = socket.recv_fds(requests, PACKET_BYTES, DESCRIPTORS)
        if not packet:
            return
        order: dict[str, Any] = parse_json(packet.decode())
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid != 0:
                report(requests, order["name"], pid)
                os._exit(0)
            requests.close()
            start(order, descriptors)
            return
        os.waitpid(between, 0)
        for descriptor in descriptors:
            os.close(descriptor)


def report(requests: socket.socket, name: str, pid: int) -> None:
    """Say which process a program has, or end it: a run that is stopped while it starts asks for no more programs."""
    import json

    try:
        requests.send(json.dumps({"name": name, "pid": pid}).encode())
    except BrokenPipeError:
        import signal

        os.kill(pid, signal.SIGKILL)


def start(order: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Become the process of the program, and run it."""
    failed = descriptors[2]
    try:
        become(order, descriptors)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
        os._exit(127)
    os.close(failed)
    run_program(order["command"][1:])


def become(order: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Take over everything but the program itself."""
    os.setpgid(0, 0)
    os.dup2(descriptors[0], 1)
    os.dup2(descriptors[1], 2)
    os.close(descriptors[0])
    os.close(descriptors[1])
    env = order["environ"]
    if len(descriptors) == DESCRIPTORS:
        env["XMML_REPORTS"] = str(descriptors[4])
    deadline = time.monotonic() + ORPHAN_LIMIT_S
    while os.getppid() != order["parent"]:
        if time.monotonic() > deadline:
            os._exit(127)
        time.sleep(0.0002)
    die_with_parent(order["parent"])
    os.fchdir(descriptors[3])
    os.close(descriptors[3])
    if order.get("cpus"):
        os.sched_setaffinity(0, order["cpus"])
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    os.environ.update(env)
    with open("/proc/self/comm", "w", encoding="utf-8") as file:
        file.write(order["name"][:15])


def run_program(words: Sequence[str]) -> None:
    """Run a script, or a command (``-c``), as the interpreter does it."""
    from types import ModuleType

    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.orig_argv[1:] = words
    try:
        if words[0] == "-c":
            sys.argv = ["-c", *words[2:]]
            code = compile(words[1], "<string>", "exec")
        else:
            script = words[0]
            sys.argv = list(words)
            sys.path[0] = os.path.dirname(os.path.realpath(script))
            main.__file__ = script
            with open(script, "rb") as file:
                code = compile(file.read(), script, "exec")
    except OSError as error:
        print(f"{sys.executable}: can't open file {words[0]!r}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        raise SystemExit(1) from None
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        end_with(error)


def end_with(error: BaseException) -> NoReturn:
    """End as the interpreter does after an exception that nobody caught, without the frames of this module."""
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    if isinstance(error, KeyboardInterrupt):
        import signal

        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(1) from None
