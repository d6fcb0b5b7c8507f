"""Processes of `mto` at emulated sites, and instances that count what they exchange through them."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ends.messages import ALL_LARGE, Progress
from exchanged import MessagesWrong, require
from measured import Record
from waiting import LIMIT_S, wait_until
from wan import Machine, MachineProcess, PlacedSite, Site, Wan
from xmml_native import Coordinator, mto
from xmml_native.mto import relay_key

#: Where relays listen.
PORT = 40001
RUN = "faults"
#: Messages that a conduit holds.
CAPACITY = 64
#: So much more than before a fault a relay may hold at any moment. The two flows of a test have at most CAPACITY
#: messages on their way each, some 5 MB; they pass as much in half a second.
GROWTH_KIB = 24 << 10
ENDS = Path(__file__).parent / "ends"


class RelayAt:
    """The relay of a site: a process that can be killed, and started again where it was."""

    def __init__(
        self,
        site: PlacedSite,
        secret_file: Path,
        links: Sequence[str],
        folder: Path,
        before: Sequence[str] = (),
        options: Sequence[str] = (),
        program: Path = mto.PROGRAM,
    ) -> None:
        """Start it on the login node.

        Args:
            secret_file: of the run; the relay is given the key that is made from it.
            links: the relays that it dials, as the option `--link` has them.
            before: words before the command, such as `prlimit --nofile=64`.
            options: further options of it.
            program: that is started.
        """
        self.site, self.name, self.login = site, site.name, site.login
        self.log = folder / f"{site.name}.log"
        key_file = folder / f"{site.name}.relay-key"
        key_file.touch(mode=0o600)
        key_file.write_text(relay_key(bytes.fromhex(secret_file.read_text())))
        self._words = [*before, str(program), "--site", self.name, "--listen", f"0.0.0.0:{PORT}"]
        self._words += [
            "--run",
            f"{RUN}={key_file}",
            *(word for link in links for word in ("--link", link)),
            *options,
        ]
        self._peak_of_killed_kib = 0
        self.start()

    @property
    def address(self) -> str:
        """Where other sites find it."""
        return f"{self.site.address}:{PORT}"

    @property
    def found_at(self) -> str:
        """Where processes of its site find it: the value of XMML_RELAY."""
        return f"{self.site.login_address}:{PORT}/{self.name}"

    def start(self) -> None:
        words = [*self._words, "--log", str(self.log)]
        self.process: MachineProcess = self.login.start(words, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the relay of {self.name} does not begin (exit status {self.process.wait()}): {self.logged()}"

    def log_to(self, path: Path) -> None:
        """Write the log there from the next start."""
        self.log = path

    def kill(self) -> None:
        """As SIGKILL ends it."""
        self._peak_of_killed_kib = self.peak_kib
        self.process.kill()
        assert self.process.wait() == -9
        assert self.process.stdout is not None
        self.process.stdout.close()

    def status(self) -> dict[str, Any]:
        done = self.login.run([str(mto.PROGRAM), "status", "--json", "--site", self.name])
        status: dict[str, Any] = json.loads(done.stdout)
        return status

    def logged(self) -> str:
        return self.log.read_text() if self.log.is_file() else ""

    def await_sites(self, *names: str) -> None:
        """Wait until streams can be opened from here to these sites."""
        wait_until(lambda: set(names) <= set(self.status()["runs"][RUN]["sites"]), f"a way from {self.name} to {names}")

    def link(self) -> dict[str, Any]:
        """How its only link is."""
        (link,) = self.status()["links"]
        return dict(link)

    @property
    def memory_kib(self) -> int:
        """What it holds in memory now."""
        return self._memory_kib("VmRSS")

    @property
    def peak_kib(self) -> int:
        """The most that it has held since `forget_peak`, before it was killed or after."""
        return max(self._peak_of_killed_kib, self._memory_kib("VmHWM"))

    def forget_peak(self) -> None:
        Path(f"/proc/{self.process.program}/clear_refs").write_text("5")
        self._peak_of_killed_kib = 0

    def _memory_kib(self, what: str) -> int:
        lines = Path(f"/proc/{self.process.program}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


@dataclass(frozen=True)
class Counted:
    """What one end has counted."""

    messages: int
    bytes: int
    check: int
    longest_gap_s: float


class Flow:
    """A sender at one machine and a receiver at another that count what passes from one to the other."""

    def __init__(
        self, run: CountingRun, number: int, sender: RelayAt, receiver: RelayAt, environment: Mapping[str, str]
    ) -> None:
        self.name = f"{sender.name} to {receiver.name}"
        self.number = number
        self.instances = (f"sender{number}", f"receiver{number}")
        self._processes: list[MachineProcess] = []
        self._progress = []
        for instance, relay in zip(self.instances, (sender, receiver), strict=True):
            path = run.folder / f"{instance}.progress"
            path.write_bytes(bytes(16))
            self._progress.append(Progress(str(path)))
            program = ENDS / f"counting_{instance.rstrip('0123456789')}.py"
            there = {
                **os.environ,
                **run.environment,
                **environment,
                "XMML_INSTANCE": instance,
                "XMML_COORDINATOR": run.coordinator_address,
                "XMML_SECRET_FILE": str(run.secret_file),
                "XMML_RELAY": relay.found_at,
            }
            words = [sys.executable, str(program), str(path)]
            options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            if relay.site.nodes:
                machine = relay.site.node(1)
            else:
                machine, there["XMML_LISTEN"] = relay.site.login, f"{relay.site.address}:0"
            self._processes.append(machine.start(words, env=there, **options))

    @property
    def sender(self) -> MachineProcess:
        return self._processes[0]

    @property
    def receiver(self) -> MachineProcess:
        return self._processes[1]

    @property
    def sent(self) -> int:
        """Messages that the sender has handed over so far."""
        return self._progress[0].count

    @property
    def came(self) -> int:
        """Messages that the receiver has checked so far."""
        return self._progress[1].count

    def check_alive(self) -> None:
        """Fail with its words if an end has ended."""
        for process in self._processes:
            if process.poll() is not None:
                raise MessagesWrong(f"{self.name}: an end has ended: {process.communicate()}")

    def await_fresh(self, more: int = 20) -> float:
        """Wait until messages arrive that are sent from now on; how long that took [s]."""
        return self._await(self.sent + more)

    def await_more(self, more: int) -> float:
        """Wait until so many more messages have arrived, whenever they were sent; how long that took [s]."""
        return self._await(self.came + more)

    def _await(self, wanted: int, limit_s: float = 1.5 * LIMIT_S) -> float:
        began = progressed = time.monotonic()
        came = self.came
        while self.came < wanted:
            self.check_alive()
            if self.came > came:
                came, progressed = self.came, time.monotonic()
            if time.monotonic() > progressed + limit_s:
                raise MessagesWrong(f"{self.name}: {came} of {wanted} messages came, none for {limit_s:g} s")
            time.sleep(0.005)
        return time.monotonic() - began

    def stop(self) -> None:
        self._progress[0].stop()

    def counted(self) -> Counted:
        """What passed, when all has arrived; fails if the two ends do not agree."""
        self.stop()
        ends = []
        for process in self._processes:
            try:
                output, errors = process.communicate(timeout=3 * LIMIT_S)
            except subprocess.TimeoutExpired:
                raise MessagesWrong(f"{self.name}: {self.came} of {self.sent} messages come to the end") from None
            require(process.returncode == 0, f"{self.name}: {errors}")
            ends.append(Counted(**json.loads(output.splitlines()[-1])))
        sent, came = ends
        is_same = (sent.messages, sent.bytes, sent.check) == (came.messages, came.bytes, came.check)
        require(is_same, f"{self.name}: {sent} were sent, {came} came")
        return came

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


class CountingRun:
    """A run whose conduits go through relays, and through nothing else; `failures` is what its coordinator heard."""

    def __init__(self, home: PlacedSite, secret_file: Path, folder: Path, environment: Mapping[str, str]) -> None:
        """Begin a run, with a coordinator on the login node of `home`, which everybody can dial.

        Args:
            environment: what the processes of instances get beside that of this process.
        """
        self.folder, self.secret_file, self.environment = folder, secret_file, environment
        with home.login.network():  # its sockets are made there, and its thread lives there
            self._coordinator = Coordinator(RUN, bytes.fromhex(secret_file.read_text()), f"{home.address}:0")
        over_tcp = [each for each in self._coordinator.addresses if each.startswith("tcp:")]
        self.coordinator_address = ",".join(over_tcp)
        self.flows: list[Flow] = []
        self.failures: list[dict[str, Any]] = []
        self._methods: dict[int, str] = {}
        self._is_over = threading.Event()
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()

    def flow(
        self,
        sender: RelayAt,
        receiver: RelayAt,
        *,
        methods: Sequence[str] = ("relay",),
        byte_budget: int = 1 << 26,
        large: bool = False,
        is_awaited: bool = True,
    ) -> Flow:
        """Start two more instances, on the first compute node of each site (or the login node, where there is none;
        other sites can dial them there).

        Args:
            large: all messages are large.
            is_awaited: return only when the first messages have arrived.
        """
        number = len(self.flows) + 1
        names = (f"sender{number}", f"receiver{number}")
        conduit = {
            "id": number,
            "name": f"{names[0]}.out -> {names[1]}.in",
            "sender": names[0],
            "sender_port": "out",
            "receiver": names[1],
            "receiver_port": "in",
            "sender_copy": None,
            "receiver_copy": None,
            "capacity": CAPACITY,
            "byte_budget": byte_budget,
            "methods": list(methods),
            "sender_filters": [],
            "receiver_filters": [],
        }
        for name, port, direction, operator in zip(names, ("out", "in"), ("out", "in"), ("Oi", "S"), strict=True):
            ports = [{"name": port, "direction": direction, "operator": operator, "copies": 0}]
            shape = {"name": name, "kind": "submodel", "index": 0, "count": 1, "params": {}, "ports": ports}
            steps = {"check_order": False, "steps": 1, "until": False, "delta_s": 1.0, "total_s": 1.0}
            self._coordinator.define({**shape, **steps, "conduits": [conduit]})
        flow = Flow(self, number, sender, receiver, {ALL_LARGE: "1"} if large else {})
        self.flows.append(flow)
        if is_awaited:
            flow.await_fresh()
        return flow

    def await_method(self, flow: Flow, method: str, limit_s: float = LIMIT_S) -> float:
        """Wait until messages travel by a method; how long that took [s]."""
        began = time.monotonic()
        wait_until(lambda: self._methods.get(flow.number) == method, f"{flow.name} goes by {method}", limit_s)
        return time.monotonic() - began

    def _listen(self) -> None:
        while not self._is_over.is_set():
            for event in self._coordinator.wait_events(0.1):
                if event["event"] in ("failed", "lost"):
                    self.failures.append(event)
                if event["event"] == "conduits":
                    self._methods.update(dict.fromkeys(event["conduits"], event["method"]))

    def close(self) -> None:
        for flow in self.flows:
            flow.close()
        self._is_over.set()
        self._listening.join()
        self._coordinator.close()


@dataclass
class Chain:
    """The sites a, b, c in a row: only the relay of b, in the middle, listens for others; a coordinator elsewhere."""

    wan: Wan
    relays: dict[str, RelayAt]
    run: CountingRun
    secret_file: Path

    def relay(self, name: str) -> RelayAt:
        return self.relays[name]

    def both_ways(self) -> tuple[Flow, Flow]:
        """Instances at a and c that send to each other."""
        a, c = self.relay("a"), self.relay("c")
        return self.run.flow(a, c), self.run.flow(c, a)


#: Their compute nodes may dial out: the coordinator of a CountingRun is elsewhere.
SITES = (
    Site("a", nodes=1, nat=True),
    Site("b", nodes=1, nat=True, open_ports=(PORT,)),
    Site("c", nodes=1, nat=True),
)
#: The same as most real sites are: a compute node reaches its login node and nothing else.
CLOSED_SITES = tuple(replace(site, nat=False) for site in SITES)
HOME = Site("home", open_ports=None)


@contextlib.contextmanager
def standing(
    wan: Wan,
    folder: Path,
    before: Mapping[str, Sequence[str]] | None = None,
    environment: Mapping[str, str] | None = None,
    link: str = "",
    options: Sequence[str] = (),
    program: Path = mto.PROGRAM,
) -> Iterator[Chain]:
    """Three relays in a row and a run, while the block lasts; on failure, their logs are printed.

    Args:
        before: words before the commands of relays, by site.
        link: what the option `--link` says besides the address, with a comma before it.
        environment: what the processes of instances get beside that of this process.
        options: further options of all relays.
        program: that is started as relay.
    """
    secret_file = folder / "run.secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text(os.urandom(32).hex())
    relays: dict[str, RelayAt] = {}
    run = CountingRun(wan["home"], secret_file, folder, environment or {})
    try:
        for name in ("b", "a", "c"):
            links = [relays["b"].address + link] if name != "b" else []
            relays[name] = RelayAt(
                wan[name], secret_file, links, folder, (before or {}).get(name, ()), options, program
            )
        relays["a"].await_sites("b", "c")
        relays["c"].await_sites("a", "b")
        yield Chain(wan, relays, run, secret_file)
        require(run.failures == [], f"the coordinator has heard of {run.failures}")
    except BaseException:
        for relay in relays.values():
            print(f"--- the relay of {relay.name}:\n{relay.logged()[-6000:]}", file=sys.stderr)
        print("--- the coordinator has heard:", run.failures, file=sys.stderr)
        raise
    finally:
        run.close()
        for relay in relays.values():
            if relay.process.poll() is None:
                relay.kill()


@contextlib.contextmanager
def strangers(home: PlacedSite, relay: RelayAt, count: int) -> Iterator[None]:
    """Connections to a relay that say nothing, from the login node of a site; those that it ends are not made again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with contextlib.ExitStack() as standing:
        standing.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with home.login.network():
            for number in range(count):
                stranger = standing.enter_context(socket.socket())
                stranger.setblocking(False)
                stranger.connect_ex((relay.site.address, PORT))
                if number % 100 == 99:
                    time.sleep(0.01)  # the queue of the link has room for so many
        yield


@contextlib.contextmanager
def memory_bounded(chain: Chain, record: Record, most_kib: int = GROWTH_KIB) -> Iterator[None]:
    """Within the block no relay holds so much more than when it began, not even for a moment."""
    before_kib = {}
    for name, relay in chain.relays.items():
        relay.forget_peak()
        before_kib[name] = relay.memory_kib
    yield
    grown_kib = {name: relay.peak_kib - before_kib[name] for name, relay in chain.relays.items()}
    record("memory_grown_kib", max(grown_kib.values()))
    assert max(grown_kib.values()) <= most_kib, f"more than {most_kib} KiB: {grown_kib}"


def shell(machine: Machine, script: str, *words: str, **options: Any) -> MachineProcess:
    """A script of bash on a machine."""
    return machine.start(["bash", "-c", script, "bash", *words], **options)
