"""Random models, what must come of them, and programs that carry them out.

What must come of a model follows from its semantics alone: conduits are queues, instances walk their loops, a receive
waits for a message or the end. Such a network is determinate, so one sequential walk through it gives the numbers of
messages and runs that every carrying out must give, on whatever number of processors.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OPERATORS = {"finit": "in", "Oi": "out", "S": "in", "Of": "out"}
#: Before each operator of the loop a program does this, in this order, once per iteration.
PROGRAM = '''"""Walks its loop: sends numbers, and checks that what it receives counts up."""

import sys

import xmml

FINIT, OI, S, OF = (group.split(",") if group else [] for group in sys.argv[1:5])
sent, received = {}, {}
with xmml.Instance() as me:
    def send(port):
        sent[port] = sent.get(port, -1) + 1
        me.send(port, sent[port])

    def receive(port):
        received[port] = received.get(port, -1) + 1
        message = me.receive(port)
        assert message.data == received[port], (port, message.data, received[port])

    while me.reuse():
        for port in FINIT:
            receive(port)
        for _ in me.steps():
            for port in OI:
                send(port)
            for port in S:
                receive(port)
        for port in OF:
            send(port)
'''


@dataclass
class Instance:
    """An instance and its ports by operator."""

    name: str
    steps: int
    ports: dict[str, list[str]] = field(default_factory=lambda: {operator: [] for operator in OPERATORS})


@dataclass(frozen=True)
class Coupling:
    """From an instance's out port to an instance's in port."""

    sender: str
    sender_port: str
    receiver: str
    receiver_port: str
    capacity: int


@dataclass
class RandomModel:
    """Instances and couplings."""

    instances: dict[str, Instance]
    couplings: list[Coupling]

    def write(self, folder: Path) -> Path:
        """Write the model and its program into `folder`."""
        (folder / "program.py").write_text(PROGRAM)
        submodels, topology = [], []
        # Where somebody is left waiting, the check would find it first if it could rely on the order of operators.
        order = "" if expect(self).outcome == "done" else ' run:order="free"'
        for one in self.instances.values():
            ports = "".join(
                f'<{OPERATORS[operator]} id="{port}" operator="{operator}"/>'
                for operator, names in one.ports.items()
                for port in names
            )
            arguments = " ".join(f"'{','.join(names)}'" for names in one.ports.values())
            submodels.append(
                f'<submodel id="{one.name.upper()}"><timescale delta="1 s" total="{one.steps} s"/>'
                f"<ports>{ports}</ports>"
                f'<implementation language="python" path="program.py" run:args="{arguments}"/></submodel>\n'
            )
            topology.append(f'<instance id="{one.name}" submodel="{one.name.upper()}"{order}/>\n')
        for each in self.couplings:
            topology.append(
                f'<coupling from="{each.sender}.{each.sender_port}" to="{each.receiver}.{each.receiver_port}" '
                f'run:capacity="{each.capacity}"/>\n'
            )
        path = folder / "model.xmml"
        path.write_text(
            '<model id="random" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" '
            'xmlns:run="urn:xmml:run:1">\n'
            f"<definitions>\n{''.join(submodels)}</definitions>\n<topology>\n{''.join(topology)}</topology>\n</model>\n"
        )
        return path


def random_model(seed: int) -> RandomModel:
    """A model of two to five instances: pairs that call and release or interact, and couplings between any two."""
    choose = random.Random(seed)
    names = [f"i{number}" for number in range(choose.randint(2, 5))]
    model = RandomModel({name: Instance(name, choose.randint(1, 4)) for name in names}, [])

    def couple(sender: str, out_operator: str, receiver: str, in_operator: str) -> None:
        outs, ins = model.instances[sender].ports[out_operator], model.instances[receiver].ports[in_operator]
        number = len(model.couplings)
        if outs and choose.random() < 0.2:
            out = choose.choice(outs)  # one port to several receivers
        else:
            out = f"o{number}"
            outs.append(out)
        ins.append(f"p{number}")
        model.couplings.append(Coupling(sender, out, receiver, f"p{number}", choose.choice([1, 1, 2, 3, 16])))

    for _ in range(choose.randint(1, 4)):
        kind, (first, second) = choose.random(), choose.sample(names, 2)
        if kind < 0.4:
            couple(first, "Oi", second, "finit")
            couple(second, "Of", first, "S")
        elif kind < 0.7:
            couple(first, "Oi", second, "S")
            couple(second, "Oi", first, "S")
            model.instances[second].steps = model.instances[first].steps
        else:
            couple(
                choose.choice(names), choose.choice(["Oi", "Of"]), choose.choice(names), choose.choice(["S", "finit"])
            )
    return model


@dataclass(frozen=True)
class Expected:
    """What must come of a model: `done`, `deadlock` or `failed`; if it is done, the counts.

    Attributes:
        dropped: whether somebody left before it had received everything. How many messages were sent to it by then is a
            matter of chance.
    """

    outcome: str
    runs: dict[str, int]
    sent: dict[str, int]
    received: dict[str, int]
    dropped: bool


class _Walk:
    """All instances of a model, each a generator that yields while it must wait."""

    def __init__(self, model: RandomModel) -> None:
        self.model = model
        self.queues = {(c.receiver, c.receiver_port): deque[int]() for c in model.couplings}
        self.ended: set[str] = set()
        self.runs = dict.fromkeys(model.instances, 0)
        self.sent = dict.fromkeys(model.instances, 0)
        self.received = dict.fromkeys(model.instances, 0)
        self.failed: set[str] = set()
        self.inputs = {(c.receiver, c.receiver_port): c.sender for c in model.couplings}

    def send(self, name: str, port: str) -> None:
        for each in self.model.couplings:
            if (each.sender, each.sender_port) == (name, port):
                self.queues[each.receiver, each.receiver_port].append(1)
                self.sent[name] += 1

    def is_over(self, name: str, port: str) -> bool:
        return not self.queues[name, port] and self.inputs[name, port] in self.ended

    def walk(self, one: Instance) -> Iterator[None]:
        initial = one.ports["finit"]
        while True:
            if not initial:
                if self.runs[one.name]:
                    break
            else:
                while True:
                    over = [port for port in initial if self.is_over(one.name, port)]
                    waiting = [port for port in initial if self.queues[one.name, port]]
                    if len(over) == len(initial) or len(waiting) == len(initial):
                        break
                    if over and waiting:
                        self.failed.add(one.name)
                        return
                    yield
                if over:
                    break
            self.runs[one.name] += 1
            yield from self.receive(one, initial)
            for _ in range(one.steps):
                for port in one.ports["Oi"]:
                    self.send(one.name, port)
                yield from self.receive(one, one.ports["S"])
                if one.name in self.failed:
                    return
            for port in one.ports["Of"]:
                self.send(one.name, port)
        self.ended.add(one.name)

    def receive(self, one: Instance, ports: list[str]) -> Iterator[None]:
        for port in ports:
            while not self.queues[one.name, port]:
                if self.inputs[one.name, port] in self.ended:
                    self.failed.add(one.name)
                    return
                yield
            self.queues[one.name, port].popleft()
            self.received[one.name] += 1


def expect(model: RandomModel) -> Expected:
    """Walk through the model until it ends or nothing moves any more."""
    state = _Walk(model)
    going = {one.name: state.walk(one) for one in model.instances.values()}
    while going and not state.failed:
        before = (dict(state.runs), dict(state.sent), dict(state.received), set(state.ended))
        for name in list(going):
            if next(going[name], going) is going:
                del going[name]
        if (state.runs, state.sent, state.received, state.ended) == before:
            break
    outcome = "failed" if state.failed else "deadlock" if going else "done"
    return Expected(outcome, state.runs, state.sent, state.received, any(state.queues.values()))
