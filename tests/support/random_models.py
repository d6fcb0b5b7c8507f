"""Random models in the notation of `small_models`, and programs that carry them out.

A model is made of patterns (call and release, interaction, dispatch, a multiplied instance between mappers, ...)
between a few instances, and of couplings that may make no sense: many models finish, some deadlock, some lack messages.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from small_models import Part, Sketch, effective, written

from xmml.model import Model

#: Walks its loop, or fires: sends numbers, and checks that what comes to it unchanged counts up.
PROGRAM = '''"""Walks its loop, or fires: sends numbers, and checks that what comes to it unchanged counts up."""

import sys

import xmml


class Walk:
    def __init__(self, me, words):
        self.me, self.kind, self.unchanged = me, words[0], words[1].split(",")
        self.finit, self.oi, self.s, self.b, self.of = (
            [port for port in group.split(",") if port] for group in words[2:]
        )
        self.sent, self.received = {}, {}

    def send(self, ports):
        for port in ports:
            self.sent[port] = self.sent.get(port, -1) + 1
            name, _, copies = port.partition("/")
            if copies:
                for copy in range(int(copies)):
                    self.me.send(name, self.sent[port], to=copy)
            else:
                self.me.send(name, self.sent[port])

    def receive(self, ports):
        for port in ports:
            self.received[port] = self.received.get(port, -1) + 1
            name, _, copies = port.partition("/")
            if copies:
                for copy in range(int(copies)):
                    self.me.receive(name, of=copy)
            else:
                data = self.me.receive(name).data
                expected = self.received[port]
                assert port not in self.unchanged or data == expected, (port, data, expected)

    def run(self):
        me = self.me
        while me.reuse():
            self.receive([port for port in self.finit if me.connected(port.partition("/")[0])])  # no state at first
            if self.kind == "submodel":
                for _ in me.steps():
                    self.send(self.oi)
                    self.receive(self.s)
                    self.receive(self.b)
            self.send(self.of)


if __name__ == "__main__":
    with xmml.Instance() as me:
        Walk(me, sys.argv[1:]).run()
'''
#: The same for one part, as a class that the runtime hosts.
HOSTED = """

class {name}(xmml.Submodel):
    def run(self):
        Walk(self.me, {words}).run()
"""
FILTERS = ("drop", "sum", "repeat", "extrapolate", "lineartimeinterpolation", "last", "multiply")


@dataclass(frozen=True)
class RandomModel:
    """A model in words, and how many messages the data of each source holds."""

    text: str
    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def fires(self) -> dict[str, int | None]:
        """How many messages each source sends; `None` for one that begins again at the end of its data."""
        endless = {part.id for part in self.sketch.parts.values() if part.settings.get("repeat") == "yes"}
        return {name: None if name in endless else rows for name, rows in self.rows.items()}

    @cached_property
    def sketch(self) -> Sketch:
        return Sketch.of(self.text)

    @cached_property
    def model(self) -> Model:
        return effective(self.sketch)

    def write(self, folder: Path, free: bool = False, hosted: bool = False) -> Path:
        """Write the document, the program and the data of sources into `folder`.

        Args:
            free: say that the submodels keep to no order of operators, so that nothing is concluded from it beforehand.
            hosted: the parts are classes that can share a process, instead of programs.
        """
        parts = [part for part in self.sketch.parts.values() if part.kind != "terminal"]
        classes = {part.id: f"Part{number}" for number, part in enumerate(parts if hosted else [])}
        programs = [HOSTED.format(name=classes[part.id], words=self._words(part)) for part in parts if hosted]
        (folder / "program.py").write_text(PROGRAM + "".join(programs))
        for name, rows in self.rows.items():
            (folder / f"{name}.txt").write_text("".join(f"{row}\n" for row in range(rows)))
        implementations = {
            part.id: f'<implementation language="python" path="program.py" run:args="{shlex.join(self._words(part))}"/>'
            for part in parts
            if not hosted
        }
        path = folder / "model.xmml"
        words = frozenset({"free"} if free else ())
        written_parts = {
            name: replace(
                part,
                words=part.words | words if part.kind == "submodel" else part.words,
                settings={**part.settings, "class": f"program:{classes[name]}"} if name in classes else part.settings,
            )
            for name, part in self.sketch.parts.items()
        }
        path.write_text(written(replace(self.sketch, parts=written_parts), implementations))
        return path

    def _words(self, part: Part) -> list[str]:
        groups: dict[str, list[str]] = {operator: [] for operator in ("finit", "Oi", "S", "B", "Of")}
        unchanged = []
        for port, (direction, operator, _) in part.ports.items():
            ways = [way for way in self.sketch.ways if f"{part.id}.{port}" in (str(way.sender), str(way.receiver))]
            others = [self.sketch.parts[(way.receiver if direction == "out" else way.sender).instance] for way in ways]
            copies = f"/{others[0].copies}" if part.kind == "mapper" and others[0].copies else ""
            groups[operator or ("finit" if direction == "in" else "Of")].append(f"{port}{copies}")
            if direction == "in" and others[0].kind == "submodel" and not ways[0].filters and not copies:
                unchanged.append(port)
        return [part.kind, ",".join(unchanged), *(",".join(names) for names in groups.values())]


class _Draft:
    """A model that is being put together."""

    def __init__(self, seed: int, rich: bool) -> None:
        self.choose = random.Random(seed)
        self.rich = rich
        self.steps: dict[str, int] = {}
        self.lines: dict[str, str] = {}
        self.ways: list[str] = []
        self.rows: dict[str, int] = {}
        self.outs: dict[tuple[str, str], list[str]] = {}

    def submodel(self, steps: int = 0, words: str = "") -> str:
        name = f"i{len(self.lines)}"
        self.steps[name] = steps or self.choose.randint(1, 4)
        self.lines[name] = words + (" stateful" if self.choose.random() < 0.2 else "")
        return name

    def other(self, words: str, name: str) -> str:
        name = f"{name}{len(self.lines)}"
        self.lines[name] = words
        return name

    def couple(self, sender: str, receiver: str, filters: bool = True) -> None:
        """Add a coupling from `instance.operator` to `instance.operator`; mappers and terminals have no operator."""
        choose, number = self.choose, len(self.ways)
        known = self.outs.setdefault((sender, ""), [])
        if known and choose.random() < 0.2:
            port = choose.choice(known)  # one port to several receivers
        else:
            port = f"o{number}"
            known.append(port)
        way = f"{sender}.{port} -> {receiver}.p{number} capacity={choose.choice([1, 1, 2, 3, 16])}"
        if filters and self.rich and choose.random() < 0.15:
            name = choose.choice(FILTERS)
            way += f" | {name}" + ("" if name == "last" else f" {choose.randint(1, 3)}")
        self.ways.append(way)

    def through(self, sender: str, receiver: str) -> None:
        """Couple directly or, now and then, through a mapper."""
        if self.rich and self.choose.random() < 0.15:
            mapper = self.other("mapper", "m")
            self.couple(sender, mapper)
            self.couple(mapper, receiver)
        else:
            self.couple(sender, receiver)

    def inner(self) -> str:
        return self.choose.choice(["S", "S", "B"]) if self.rich else "S"

    def call(self, macro: str, micro: str) -> None:
        self.through(f"{macro}.Oi", f"{micro}.finit")
        self.through(f"{micro}.Of", f"{macro}.{self.inner()}")

    def interact(self, one: str, other: str) -> None:
        self.through(f"{one}.Oi", f"{other}.{self.inner()}")
        self.through(f"{other}.Oi", f"{one}.{self.inner()}")
        if self.choose.random() < 0.9:
            self.steps[other] = self.steps[one]

    def any_coupling(self, names: list[str]) -> None:
        choose = self.choose
        sender, receiver = choose.choice(names), choose.choice(names)
        self.through(f"{sender}.{choose.choice(['Oi', 'Of'])}", f"{receiver}.{choose.choice(['finit', self.inner()])}")

    def spread(self, macro: str) -> None:
        """A multiplied instance between two mappers, called in every step."""
        first, last = self.other("mapper", "m"), self.other("mapper", "m")
        worker = self.submodel(words=f" x{self.choose.randint(2, 3)}")
        self.couple(f"{macro}.Oi", first)
        self.couple(first, f"{worker}.finit", filters=False)
        self.couple(f"{worker}.Of", last, filters=False)
        self.couple(last, f"{macro}.{self.inner()}")

    def terminal(self, name: str) -> None:
        """A source that starts a submodel or feeds its loop, or a sink behind it."""
        kind = self.choose.random()
        if kind < 0.3:
            sink = self.other("sink class=text", "k")
            self.couple(f"{name}.{self.choose.choice(['Oi', 'Of'])}", sink, filters=False)
        elif kind < 0.5:
            source = self.other("", "t")
            self.lines[source] = f"source class=text file={source}.txt messages=rows repeat=yes"
            self.rows[source] = 2
            self.ways.append(f"{source}.out -> {name}.{self.inner()}.p{len(self.ways)}")
        else:
            source = self.other("", "t")
            self.lines[source] = f"source class=text file={source}.txt messages=rows"
            self.rows[source] = self.choose.randint(1, 4)
            where = self.choose.choice(["finit", "finit", self.inner()])
            self.ways.append(f"{source}.out -> {name}.{where}.p{len(self.ways)}")

    def state(self, name: str) -> None:
        number = len(self.ways)
        self.ways.append(f"{name}.Of.o{number} -> {name}.finit.p{number} state")

    def add_pattern(self, names: list[str]) -> None:
        choose, kind = self.choose, self.choose.random()
        first, second = choose.sample(names, 2)
        if kind < 0.3:
            self.call(first, second)
        elif kind < 0.5:
            self.interact(first, second)
        elif kind < 0.62:
            self.any_coupling(names)
        elif not self.rich or kind < 0.72:
            self.through(f"{first}.Of", f"{second}.finit")
        elif kind < 0.8:
            inner = self.submodel()
            names.append(inner)
            self.call(first, second)
            self.call(second, inner)
        elif kind < 0.88:
            self.spread(first)
        elif kind < 0.96:
            self.terminal(first)
        else:
            self.state(first)

    def finish(self) -> RandomModel:
        parts = [f"{name} {self.steps.get(name, '')} {words}" for name, words in self.lines.items()]
        lines = [" ".join(line.split()) for line in [*parts, *self.ways]]
        return RandomModel("\n".join(lines), self.rows)


def random_model(seed: int, rich: bool = True) -> RandomModel:
    """Return the random model of a seed: two to five submodels and what comes between them.

    Args:
        rich: also with mappers, filters, terminals, copies, B ports and state; else submodels only.
    """
    draft = _Draft(seed, rich)
    names = [draft.submodel() for _ in range(draft.choose.randint(2, 5))]
    for _ in range(draft.choose.randint(1, 4)):
        draft.add_pattern(names)
    return draft.finish()
