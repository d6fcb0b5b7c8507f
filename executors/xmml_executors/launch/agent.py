"""What runs at a site: the agent in each job, the talker on the login node, and the one that cleans up.

It is copied into the run's folder at the site, beside the supervisor, and started with `python -I -S agent.py`, so it
needs nothing but Python's own library. Launcher and agents speak through files in that folder, because that works
wherever a job and a login node see the same files, and because nothing is lost when the launcher's connection is: what
was not read is still there. A talker carries the lines to and from the launcher over ssh. It holds a connection to each
agent, over which both say, with a byte, that there is something new in a file. So files on the network are looked at
when something is in them; where the connection does not stand, less and less often, down to once in two seconds.

    agent.py wait JOB PATIENCE_S    on a node of a job: says that it is ready, waits for a word, starts the supervisor
    agent.py stage                  lays out the files that standard input names; says which of them are missing
    agent.py hash                   says the hashes of the programs that standard input names
    agent.py list                   says which logs and results are in the folders that standard input names
    agent.py talk                   on the login node: standard input to `orders`, `reports` to standard output
    agent.py forsake                ends the lease, and waits until the agents have ended because of that
    agent.py end                    ends what still runs on this host; results stay where they are
    agent.py end-builds             ends builds that still go on on this host
    agent.py clean                  ends what still runs on this host and removes the folder of the run

`JOB` is the folder of a job and, in that, of a node: below `jobs/`. In it each line of `orders` and `reports` is one
JSON object. Orders to the agent:

    {"n", "do": "hold", "s"}    wait for so many seconds more, as long as the launcher lives
    {"n", "do": "go"}           start the supervisor; every later order is passed on to it
    {"n", "do": "abort"}        end

    {"n", "do": "prepare", "folder", "stage_in"}    make a working folder and copy the model's files into it
    {"n", "do": "start", ..., "files", "stage_in", "cores", "of_cores", "gpus"}
                                as the supervisor is told, with what must be there before, and places in the list of the
                                CPUs that we may use, if these are so many, and of our GPUs

`n` counts the orders of a job from 1; one that comes a second time (after a connection broke) is not obeyed again.
Reports are those of the supervisor, and

    {"is": "ready", "host", "port", "pid", "job", "python", "path", "nodes", "part"}
                                `nodes`: the names of the job's nodes; `part`: its number in a heterogeneous job
    {"is": "killed"}            the batch system, or somebody, ends the job
    {"is": "given up"}          nobody said anything until its patience was over
    {"is": "lease over"}        the launcher has not been heard of for too long
    {"is": "over"}              everything has ended
    {"is": "failed", "status"}  from the script of the job: the agent of this node has not begun, or has failed

To the talker:

    {"listen": {JOB: OFFSET}}   from now on tell what is in its reports from there on
    {"forget": [JOB]}           tell nothing of it any more
    {"to": JOB, "order": {}}    answered by {"taken": N, "by": JOB} when it is in the file
    {"lease": NUMBER, "s", "runs": [FOLDER]}    the launcher of these runs lives (without "runs": of this one); silence
                                for so many seconds ends what runs; answered by {"alive"}
    {"watch": {JOB: [HOST, PORT]}}  from now on tell when the agent of a job, or its node, is gone

To a talker `JOB` may also be a path: it serves all runs of a launcher at its site.

From the talker: `{"from": JOB, "next": OFFSET, "report": {}}` and `{"gone": JOB, "why"}`. It ends when its standard
input does.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import math
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The pause between two looks at a file of which nobody says that it has grown: first, by what it grows, longest.
LOOK_AFTER_S = 0.03
LOOK_LESS_OFTEN = 1.2
LOOK_AT_LEAST_EVERY_S = 2.0
#: What is sent to say that there is something new. Whoever else sends something causes looks, not more often than this.
NEWS = b"n"
MOST_OFTEN_S = 0.005
#: How often it is looked whether processes have ended.
ENDED_LOOK_S = 0.03
#: How often the lease is looked at.
LEASE_LOOK_S = 2.0
#: Longer lines are not ours.
LONGEST_LINE_BYTES = 16 * 1024 * 1024
READ_BYTES = 256 * 1024
#: When the reports of a job have grown so large, output is not passed on any more; the logs at the site have all of it.
MOST_REPORTED_BYTES = 512 * 1024 * 1024
#: How long everything may take to end when it is told to.
ENDS_WITHIN_S = 6.0

#: A node whose kernel has not answered for so long is taken for dead: idle time until the first question, pause between
#: questions, and how many there are; then how long a last attempt to connect may take.
NODE_IDLE_S, NODE_ASK_EVERY_S, NODE_QUESTIONS = 1, 1, 4
NODE_LAST_ATTEMPT_S = 1.5
#: Those who have connected to an agent are not more; there is one talker, and who comes instead of it is let go.
MOST_WATCHERS = 8

UNWRITABLE, ABORTED, GAVE_UP, LEASE_OVER, KILLED = STATUSES = 74, 75, 76, 77, 143


class Tail:
    """What is added to a file, line by line. The file is opened anew for each look: over NFS that shows what another
    host has written."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def lines(self) -> list[tuple[int, bytes]]:
        """Return the complete lines since the last call, each with the offset behind it."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                chunk = file.read(READ_BYTES)
                while chunk and b"\n" not in chunk and len(chunk) < LONGEST_LINE_BYTES:
                    more = file.read(READ_BYTES)
                    if not more:
                        break
                    chunk += more
        except FileNotFoundError:
            return []
        found = []
        for line in chunk.split(b"\n")[:-1]:
            self.offset += len(line) + 1
            found.append((self.offset, line))
        return found


def append(path: str, line: bytes) -> None:
    """Add whole lines to a file; closing it makes other hosts see them."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)


def encoded(what: dict[str, Any]) -> bytes:
    """Return a line."""
    return json.dumps(what).encode() + b"\n"


def renew_lease(run: str, content: str) -> None:
    """Write the launcher's sign of life for a run."""
    path = os.path.join(run, "lease")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(content)
    os.replace(path + ".new", path)


class Looks:
    """When a file is looked at again: at once when somebody says that there is something new, else ever more seldom."""

    def __init__(self) -> None:
        self.pause = LOOK_AFTER_S
        self.looked_at = -LOOK_AT_LEAST_EVERY_S
        self.has_news = True

    def due_in_s(self) -> float:
        """Return how long there is nothing to be looked at."""
        pause = MOST_OFTEN_S if self.has_news else self.pause
        return max(0.0, self.looked_at + pause - time.monotonic())

    def looked(self, *, found: bool) -> None:
        """Somebody has looked; `found`: there was something, so that more may follow."""
        self.looked_at = time.monotonic()
        self.has_news = False
        self.pause = LOOK_AFTER_S if found else min(LOOK_LESS_OFTEN * self.pause, LOOK_AT_LEAST_EVERY_S)


class Lease:
    """The launcher's sign of life: a file whose content changes. Clocks of other hosts play no part."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.content = b""
        self.changed_at = time.monotonic()
        self.look_at = 0.0

    def is_over(self) -> bool:
        """Whether the file has not changed for as long as it says."""
        now = time.monotonic()
        if now < self.look_at:
            return False
        self.look_at = now + LEASE_LOOK_S
        try:
            with open(self.path, "rb") as file:
                content = file.read(64)
        except OSError:
            content = self.content
        if content != self.content:
            self.content, self.changed_at = content, now
        try:
            lasts_s = float(self.content.split()[1])
        except (IndexError, ValueError):
            return False
        return now - self.changed_at > lasts_s


class Agent:
    """In a job: waits for a word, then stands between the supervisor and the files."""

    def __init__(self, run: str, job: str, patience_s: float) -> None:
        self.run_folder = run
        self.folder = os.path.join(run, "jobs", job)
        self.patience_s = patience_s
        self.orders = Tail(os.path.join(self.folder, "orders"))
        self.reports = os.path.join(self.folder, "reports")
        self.lease = Lease(os.path.join(run, "lease"))
        self.obeyed = 0
        self.pending: list[dict[str, Any]] = []
        self.told_bytes = 0
        self.killed = False
        self.cannot_write = False
        self.looks = Looks()
        # That these connections stand says that the node does, because its kernel answers; that they end, that we did.
        self.door = socket.create_server(("", 0), backlog=MOST_WATCHERS)
        self.door.setblocking(False)
        self.watchers: list[socket.socket] = []
        self.woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> int:
        """Return the exit status of the job."""
        signal.signal(signal.SIGTERM, self.on_terminate)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with open(os.path.join(self.folder, "agent"), "w", encoding="ascii") as file:
            file.write(f"{os.getpid()} {start_of(os.getpid())} {socket.gethostname()}\n")
        self.tell(
            {
                "is": "ready",
                "host": socket.gethostname(),
                "port": self.door.getsockname()[1],
                "pid": os.getpid(),
                "job": os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID") or "",
                "python": sys.executable,
                "path": os.environ.get("PATH", os.defpath),
                "nodes": os.environ.get("XMML_NODES", socket.gethostname()).split(),
                "part": os.environ.get("XMML_HET_GROUP", ""),
            }
        )
        status = UNWRITABLE if self.cannot_write else self.wait()
        if status is None:
            return self.carry_out()
        self.tell({"is": "over"})
        return status

    def on_terminate(self, *_: object) -> None:
        """The batch system, or somebody, wants us to end."""
        self.killed = True

    def tell(self, what: dict[str, Any]) -> None:
        """Report something of our own."""
        self.report(encoded(what))

    def report(self, lines: bytes) -> None:
        """Add to the reports. If that cannot be done (the disk is full), nothing more is reported, and the job ends."""
        if not self.cannot_write:
            try:
                append(self.reports, lines)
            except OSError:
                self.cannot_write = True
            for watcher in self.watchers:
                with contextlib.suppress(OSError):
                    watcher.send(NEWS, socket.MSG_DONTWAIT)

    def await_something(self, others: list[socket.socket], until: float = math.inf) -> list[socket.socket]:
        """Wait until there may be orders, a signal has come, a moment is there, or others have something; return
        these others."""
        timeout_s = min(self.looks.due_in_s(), max(0.0, until - time.monotonic()), LEASE_LOOK_S)
        watched: list[Any] = [self.woken, self.door, *self.watchers, *others]
        readable, _, _ = select.select(watched, [], [], timeout_s)
        if self.woken in readable:
            os.read(self.woken, READ_BYTES)
        if self.door in readable:
            self.let_in()
        for watcher in self.watchers[:]:
            if watcher in readable and not self.hear(watcher):
                watcher.close()
                self.watchers.remove(watcher)
        return [other for other in others if other in readable]

    def hear(self, watcher: socket.socket) -> bool:
        """Take note that there are orders; return whether the connection still stands."""
        try:
            said = watcher.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.looks.has_news = True
        return bool(said)

    def new_orders(self) -> list[dict[str, Any]]:
        """Return the orders that have not been obeyed yet."""
        fresh, self.pending = self.pending, []
        if self.looks.due_in_s() > 0:
            return fresh
        lines = self.orders.lines()
        self.looks.looked(found=bool(lines))
        for _, line in lines:
            order = json.loads(line)
            if order["n"] > self.obeyed:
                self.obeyed = order["n"]
                fresh.append(order)
        return fresh

    def wait(self) -> int | None:
        """Wait for a word; return `None` for go, else how to end."""
        until = time.monotonic() + self.patience_s
        is_held = False
        while not self.killed:
            orders = self.new_orders()
            for number, order in enumerate(orders):
                if order["do"] == "go":
                    self.pending = orders[number + 1 :]
                    return None
                if order["do"] == "abort":
                    return ABORTED
                if order["do"] == "hold":
                    until, is_held = time.monotonic() + order["s"], True
            if is_held and self.lease.is_over():  # who held us will not come back in time
                self.tell({"is": "lease over"})
                return LEASE_OVER
            if time.monotonic() >= until:
                self.tell({"is": "given up"})
                return GAVE_UP
            self.await_something([], until)
        self.tell({"is": "killed"})
        return KILLED

    def let_in(self) -> None:
        """Let somebody watch that we live."""
        with contextlib.suppress(OSError):
            watcher = self.door.accept()[0]
            watcher.setblocking(False)
            self.watchers.append(watcher)
            self.looks.has_news = True  # it may have had something to say before
        for former in self.watchers[:-MOST_WATCHERS]:
            former.close()
        del self.watchers[:-MOST_WATCHERS]

    def carry_out(self) -> int:
        """Start the supervisor and pass on what it is told and tells, until it has ended."""
        ours, theirs = socket.socketpair()
        os.chdir(self.run_folder)
        supervisor = subprocess.Popen(
            [os.path.join(self.run_folder, "mto"), "supervise"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            process_group=0,
        )
        theirs.close()
        status, rest, quitting = 0, b"", False
        while True:
            has_reports = self.await_something([ours])
            if self.killed and not quitting:
                self.tell({"is": "killed"})  # before the news of those who were killed with us
            if has_reports:
                chunk = ours.recv(READ_BYTES)
                if not chunk:
                    break
                rest = self.pass_on(rest + chunk)
            with contextlib.suppress(OSError):  # it is gone: its end of the socket says so
                for order in self.new_orders():
                    if order["do"] == "abort":
                        status, quitting = ABORTED, self.quit(ours)
                    elif order["do"] in ("start", "prepare"):
                        self.prepare(order, ours)
                    else:
                        ours.sendall(encoded(order))
                if self.killed and not quitting:
                    status, quitting = KILLED, self.quit(ours)
                if not quitting and self.lease.is_over():
                    self.tell({"is": "lease over"})
                    status, quitting = LEASE_OVER, self.quit(ours)
                if not quitting and self.cannot_write:
                    status, quitting = UNWRITABLE, self.quit(ours)
        supervisor.wait()
        self.tell({"is": "over"})
        return status

    def prepare(self, order: dict[str, Any], supervisor: socket.socket) -> None:
        """Make what a process finds when it starts, and have the supervisor start it."""
        try:
            os.makedirs(order["folder"], exist_ok=True)
            for stream in ("stdout", "stderr"):
                if stream in order:
                    os.makedirs(os.path.dirname(order[stream]), exist_ok=True)
            for path, text in order.pop("files", {}).items():
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            for pattern in order.pop("stage_in", ()):
                for source in glob.glob(os.path.join(self.run_folder, "model", pattern), recursive=True):
                    if os.path.isdir(source):
                        target = os.path.join(order["folder"], os.path.basename(source))
                        shutil.copytree(source, target, dirs_exist_ok=True)
                    else:
                        shutil.copy2(source, order["folder"])
        except OSError as error:
            name, path = order.get("name", ""), error.filename or order["folder"]
            self.tell({"is": "unwritable", "name": name, "file": path, "error": error.strerror})
            return
        if order["do"] == "start":
            bind(order)
            if found := "/" not in order["command"][0] and shutil.which(
                order["command"][0], path=order["env"].get("PATH")
            ):
                # Without links: mpirun takes the folder above that of `/bin/mpirun` for where it is installed.
                folder, name = os.path.split(found)
                order["command"][0] = os.path.join(os.path.realpath(folder), name)
            supervisor.sendall(encoded(order))

    def quit(self, supervisor: socket.socket) -> bool:
        """Have the supervisor end everything."""
        supervisor.sendall(encoded({"do": "quit"}))
        return True

    def pass_on(self, reports: bytes) -> bytes:
        """Write the supervisor's complete lines to the file; return the rest."""
        complete, _, rest = reports.rpartition(b"\n")
        if not complete:
            return rest
        if self.told_bytes > MOST_REPORTED_BYTES:
            kept = [line for line in complete.split(b"\n") if not line.startswith(b'{"is":"output"')]
            complete = b"\n".join(kept)
        if complete:
            self.report(complete + b"\n")
            self.told_bytes += len(complete) + 1
        return rest


#: What tells threads to stay on the cores of their process.
BOUND = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"}
#: What tells programs which GPUs they may use.
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def bind(order: dict[str, Any]) -> None:
    """Turn the places of a process in our lists of CPUs and GPUs into what it is started with. If the CPUs are not
    those that we should have, the kernel chooses.

    See `JobNodes.devices`.
    """
    places, of_cores, gpus = (order.pop(key, None) for key in ("cores", "of_cores", "gpus"))
    cpus = sorted(os.sched_getaffinity(0))
    if places and len(cpus) == of_cores:
        order["cpus"] = [cpus[place] for place in places]
        order["env"] = {**{name: value for name, value in BOUND.items() if name not in os.environ}, **order["env"]}
    if gpus is not None:
        for variable in [name for name in GPU_VARIABLES if name in os.environ] or GPU_VARIABLES:
            devices = [device for device in os.environ.get(variable, "").split(",") if device]
            numbers = [devices[place] if place < len(devices) else str(place) for place in gpus]
            order["env"].setdefault(variable, ",".join(numbers))


class Watch:
    """The connection from the login node to an agent. By it both say that there is something new in a file; that it
    stands says that the agent lives, and its node.

    Files cannot tell that. One that does not change may lie on a file system that is slow at the moment; who does not
    answer is gone.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.has_stood = False
        self.has_news = False
        self.connecting: socket.socket | None = None
        self.standing: socket.socket | None = None
        self.connect()

    def connect(self) -> None:
        """Begin to connect."""
        self.until = time.monotonic() + NODE_LAST_ATTEMPT_S
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(*self.address, type=socket.SOCK_STREAM)[0]
            attempt = socket.socket(family, kind, protocol)
        except OSError:
            return
        attempt.setblocking(False)
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, NODE_IDLE_S)
        attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, NODE_ASK_EVERY_S)
        attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, NODE_QUESTIONS)
        attempt.connect_ex(address)
        self.connecting = attempt

    def say(self) -> None:
        """Say that there are orders."""
        if self.standing is not None:
            with contextlib.suppress(OSError):
                self.standing.send(NEWS, socket.MSG_DONTWAIT)

    def sockets(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return what becomes readable, and writable, when something happens."""
        return [self.standing] if self.standing else [], [self.connecting] if self.connecting else []

    def look(self) -> str | None:
        """Return why the agent is gone, empty while it is not; `None` if it cannot be watched."""
        if self.standing is not None and _is_readable(self.standing):
            try:
                ended = not self.standing.recv(READ_BYTES)
            except OSError:
                ended = True
            self.has_news = True
            if ended:
                self.standing.close()
                self.standing = None
                self.connect()
        if self.standing is not None:
            return ""
        why = "its node does not answer"
        if self.connecting is not None:
            _, writable, _ = select.select([], [self.connecting], [], 0)
            if not writable and time.monotonic() < self.until:
                return ""
            number = self.connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if writable else errno.ETIMEDOUT
            if number == 0:
                self.standing, self.connecting, self.has_stood = self.connecting, None, True
                self.has_news = True  # what was reported before
                self.say()
                return ""
            self.connecting.close()
            self.connecting = None
            if number == errno.ECONNREFUSED:
                why = "its agent has ended without a word"
        return why if self.has_stood else None


def _is_readable(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])


class Talker:
    """On the login node: between the launcher's connection and the files of the jobs."""

    def __init__(self, run: str) -> None:
        self.run_folder = run
        self.tails: dict[str, Tail] = {}
        self.watches: dict[str, Watch] = {}
        self.looks = Looks()
        self.incoming = b""
        self.out = sys.stdout.buffer

    def run(self) -> int:
        """Carry lines until standard input ends."""
        os.set_blocking(0, False)
        try:
            self.say({"is": "talking", "host": socket.gethostname()})
            while True:
                if 0 in self.await_something():
                    chunk = os.read(0, READ_BYTES)
                    if not chunk:
                        return 0
                    *lines, self.incoming = (self.incoming + chunk).split(b"\n")
                    for line in lines:
                        self.obey(json.loads(line))
                self.watch()
                if self.looks.due_in_s() <= 0:
                    self.looks.looked(found=self.pass_on())
        except BrokenPipeError:
            return 0

    def await_something(self) -> list[Any]:
        """Wait until the launcher or an agent says something, or files are to be looked at; return what is readable."""
        readable: list[Any] = [0]
        writable: list[Any] = []
        timeout_s = self.looks.due_in_s()
        for watch in self.watches.values():
            standing, connecting = watch.sockets()
            readable += standing
            writable += connecting
            if connecting:
                timeout_s = min(timeout_s, max(0.0, watch.until - time.monotonic()))
        return select.select(readable, writable, [], timeout_s)[0]

    def say(self, what: dict[str, Any]) -> None:
        """Tell the launcher."""
        self.out.write(encoded(what))
        self.out.flush()

    def obey(self, what: dict[str, Any]) -> None:
        """Do what the launcher wants."""
        if "listen" in what:
            for job, offset in what["listen"].items():
                self.tails[job] = Tail(os.path.join(self.run_folder, "jobs", job, "reports"), offset)
                self.looks = Looks()
        for job in what.get("forget", ()):
            self.tails.pop(job, None)
            self.watches.pop(job, None)
        if "to" in what:
            append(os.path.join(self.run_folder, "jobs", what["to"], "orders"), encoded(what["order"]))
            if what["to"] in self.watches:
                self.watches[what["to"]].say()
            self.say({"taken": what["order"]["n"], "by": what["to"]})
        if "lease" in what:
            for run in what.get("runs", [self.run_folder]):
                with contextlib.suppress(FileNotFoundError):  # its run is over
                    renew_lease(run, f"{what['lease']} {what['s']}\n")
            self.say({"alive": what["lease"]})
        for job, (host, port) in what.get("watch", {}).items():
            self.watches[job] = Watch(host, port)

    def watch(self) -> None:
        """Tell which agents are gone."""
        for job, watch in list(self.watches.items()):
            why = watch.look()
            self.looks.has_news, watch.has_news = self.looks.has_news or watch.has_news, False
            if why:
                self.pass_on()  # what it has said before
                self.say({"gone": job, "why": why})
            if why or why is None:
                del self.watches[job]

    def pass_on(self) -> bool:
        """Tell what the jobs have reported; return whether they have."""
        something = False
        for job, tail in self.tails.items():
            for offset, line in tail.lines():
                something = True
                self.out.write(b'{"from": %s, "next": %d, "report": %s}\n' % (json.dumps(job).encode(), offset, line))
        if something:
            self.out.flush()
        return something


def forsake(run: str) -> int:
    """End the lease: the launcher is gone, and in an allocation nobody will take its place.

    The agents then end all that they have started, steps of a batch system included, which outlive whoever only kills
    their `srun`.
    """
    renew_lease(run, "gone 0\n")
    until = time.monotonic() + LEASE_LOOK_S + 2 * ENDS_WITHIN_S
    reports = glob.glob(os.path.join(glob.escape(run), "jobs/*/*/reports"))
    while any(not has_ended(each) for each in reports) and time.monotonic() < until:
        time.sleep(ENDED_LOOK_S)
    return 0


def has_ended(reports: str) -> bool:
    """Whether an agent has reported that everything has ended."""
    with contextlib.suppress(OSError), open(reports, "rb") as file:
        return any(json.loads(line)["is"] == "over" for line in file if line.endswith(b"\n"))
    return True


def end(run: str) -> int:
    """End what still runs on this host for the run; of the run's folder only the secret goes."""
    end_builds(run)
    agents = processes_of(run, "jobs/*/*/agent")
    end_all(agents, os.kill)  # its supervisor sees that an agent is gone, and ends everything
    end_all(processes_of(run, "relay"), os.kill)  # of a launcher that was killed: its log lies in the folder
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(run, ".secret"))
    return 0


def end_builds(run: str) -> int:
    """End the builds that still go on on this host, because the launcher that waited for them was killed."""
    end_all(processes_of(run, "builds/*"), os.killpg)
    return 0


def processes_of(run: str, notes: str) -> list[tuple[int, str]]:
    """Return number and start of the processes of this host that still live of those that files in the
    folder of the run note; `notes` is the pattern of their names."""
    found = []
    for note in glob.glob(os.path.join(glob.escape(run), notes)):
        try:
            with open(note, encoding="ascii") as file:
                pid, started, host = file.read().split()
        except (OSError, ValueError):
            continue
        if host == socket.gethostname() and start_of(int(pid)) == started:
            found.append((int(pid), started))
    return found


def end_all(processes: list[tuple[int, str]], kill: Callable[[int, int], None]) -> None:
    """Ask processes to end, and end those that do not within a time."""
    for pid, _ in processes:
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGTERM)
    until = time.monotonic() + ENDS_WITHIN_S
    while (processes := [each for each in processes if start_of(each[0]) == each[1]]) and time.monotonic() < until:
        time.sleep(ENDED_LOOK_S)
    for pid, _ in processes:
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def clean(run: str) -> int:
    """End the agents that still run on this host, and remove the folder of the run."""
    end(run)
    # A process that is just ending may still write: its last file comes between listing and removing.
    for _ in range(20):
        shutil.rmtree(run, ignore_errors=True)
        if not os.path.exists(run):
            return 0
        time.sleep(0.1)
    print(f"{run} cannot be removed", file=sys.stderr)
    return 1


def start_of(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty if there is none or it is only waited for."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()


def forget_own_step() -> None:
    """Remove what Slurm says of the CPUs and memory of this step. Steps that are started from here would take it for
    what they are to do, and fail."""
    for name in list(os.environ):
        if name.startswith(("SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_TRES_PER_TASK")):
            del os.environ[name]


def main(arguments: list[str]) -> int:
    """Do what the first word says."""
    run = os.path.dirname(os.path.abspath(__file__))
    if arguments[0] == "wait":
        forget_own_step()
        return Agent(run, arguments[1], float(arguments[2])).run()
    if arguments[0] in ("stage", "list", "hash"):
        sys.path.append(run)  # an isolated interpreter does not look for modules where the program lies
        import site_files  # type: ignore[import-not-found]

        actions = {"stage": site_files.stage, "list": site_files.list_results, "hash": site_files.hash_programs}
        return int(actions[arguments[0]](run))
    if arguments[0] == "talk":
        return Talker(run).run()
    if arguments[0] == "forsake":
        return forsake(run)
    if arguments[0] == "end":
        return end(run)
    if arguments[0] == "end-builds":
        return end_builds(run)
    return clean(run)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
