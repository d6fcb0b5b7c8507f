"""Small models written in a few words, for tests: as the effective model, or as an xMML document.

    a 3 init                    an instance of a submodel with 3 steps, marked init
    u 1 stateful x4             four copies of a stateful one
    p until                     a program that decides when to stop; `p 5 until`: after 5 iterations at the latest
    q free                      a program that keeps to no order of operators
    m mapper class=gather       a mapper, a built-in one; also: source, sink
    b 2 runtime=1.5 cores=4 domain=artery.blood delta=1ms total=2ms space=1mm/10cm D=0.1

    a.Oi -> u.finit             a coupling; the ports are called after their operators, `Oi`, the second one `Oi2`
    u.Of.end -> a.S.flux        ports with names; two couplings from one named port are one port with two receivers
    a.Oi -> m.left              ports of mappers and terminals have no operators; `m` alone: port `in` or `out`
    u.Of.s -> u.finit.s state   a coupling between ports of type `state`
    a.Oi -> b.S | drop 2 | last | interpolation 3   filters: built-in ones, or one's own of the type that is named
    a.Oi -> b.S capacity=2 size=80                  messages that it may hold, bytes of one message

Everything up to a `#` counts. `model(text)` is the effective model, `document(text)` the same as an xMML document.
Only what a test is about need be written; delta is 1 s and total as many seconds as there are steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from xmml import units
from xmml.model import (
    AppliedFilter,
    Coupling,
    Definition,
    Endpoint,
    Filter,
    Implementation,
    Instance,
    Kind,
    Model,
    Operator,
    Port,
    read_only,
)
from xmml.scales import Range, Scale, ScaleKind

OPERATORS = ("finit", "Oi", "S", "B", "Of")
#: Words for filters of the user's own.
OWN_FILTERS = ("interpolation", "reduction", "converter")
#: Built-in filters by what they do to the number of messages.
FILTER_TYPES = {
    **dict.fromkeys(["drop", "null", "blockafter", "last", "sum", "mean", "dechunk"], "reduction"),
    **dict.fromkeys(["repeat", "extrapolate", "lineartimeinterpolation", "chunk"], "interpolation"),
}
HEAD = '<model id="small" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">\n'


@dataclass
class Part:
    """An instance as it is written."""

    id: str
    kind: Kind
    words: frozenset[str]
    steps: int | None
    copies: str | None
    settings: Mapping[str, str]
    ports: dict[str, tuple[str, str | None, str]] = field(default_factory=dict)
    """By port: direction, operator and type."""

    @property
    def terminal_type(self) -> str:
        return "sink" if any(direction == "in" for direction, _, _ in self.ports.values()) else "source"

    @property
    def mapper_type(self) -> str:
        directions = [direction for direction, _, _ in self.ports.values()]
        if directions.count("in") > 1:
            return "fan-in" if directions.count("out") == 1 else "fan-in-out"
        return "fan-out"

    @property
    def params(self) -> dict[str, str]:
        known = ("runtime", "cores", "domain", "delta", "total", "space", "class")
        return {name: value for name, value in self.settings.items() if name not in known}

    @property
    def times(self) -> tuple[str, str] | None:
        """Delta and total."""
        delta, total = self.settings.get("delta", "1 s"), self.settings.get("total")
        if total is None:
            if self.steps is None:
                return None
            quantity = re.fullmatch(r"([0-9.e-]+)(.*)", delta)
            assert quantity, f"cannot read delta={delta}"
            total = f"{float(quantity[1]) * self.steps:g}{quantity[2]}"
        return delta, total

    @property
    def space(self) -> tuple[str, str] | None:
        delta, _, total = self.settings.get("space", "").partition("/")
        return (delta, total) if delta else None


@dataclass(frozen=True)
class Way:
    """A coupling as it is written."""

    sender: Endpoint
    receiver: Endpoint
    filters: tuple[tuple[str, float | None], ...]
    capacity: int | None
    size: float | None


@dataclass
class Sketch:
    """A model as it is written: instances by id, and couplings."""

    parts: dict[str, Part] = field(default_factory=dict)
    ways: list[Way] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Sketch:
        """Read a model in the notation of this module."""
        sketch = cls()
        for line in (line.partition("#")[0].strip() for line in text.splitlines()):
            if "->" in line:
                sketch.ways.append(sketch._way(line))
            elif line:
                part = _part(line)
                assert part.id not in sketch.parts, f"two instances {part.id}"
                sketch.parts[part.id] = part
        return sketch

    def _way(self, line: str) -> Way:
        ends, *filters = (piece.strip() for piece in line.split("|"))
        words = ends.split()
        settings = dict(word.split("=") for word in line.split() if "=" in word)
        type_ = "state" if "state" in words else "normal"
        chain = [[word for word in piece.split() if "=" not in word] for piece in filters]
        return Way(
            self._end(words[0], "out", type_),
            self._end(words[2], "in", type_),
            tuple((name, float(factor[0]) if factor else None) for name, *factor in chain),
            int(settings["capacity"]) if "capacity" in settings else None,
            float(settings["size"]) if "size" in settings else None,
        )

    def _end(self, text: str, direction: str, type_: str) -> Endpoint:
        instance, *names = text.split(".")
        assert instance in self.parts, f"no instance {instance}; instances come before couplings"
        part = self.parts[instance]
        operator = names.pop(0) if part.kind == "submodel" else None
        assert operator is None or operator in OPERATORS, f"{text}: {operator} is no operator"
        port = names[0] if names else _free(operator or direction, part.ports)
        declared = part.ports.setdefault(port, (direction, operator, type_))
        assert declared == (direction, operator, type_), f"{text}: the port {port} is {declared}"
        return Endpoint(instance, port)


def _part(line: str) -> Part:
    name, *words = line.split()
    settings = dict(word.split("=") for word in words if "=" in word)
    bare = [word for word in words if "=" not in word]
    numbers = [int(word) for word in bare if word.isdigit()]
    copies = [word[1:] for word in bare if re.fullmatch(r"x([0-9]+|\*)", word)]
    kind: Kind = "mapper" if "mapper" in bare else "terminal" if {"source", "sink"} & set(bare) else "submodel"
    known = {"init", "stateful", "until", "free", "mapper", "source", "sink"}
    left = [word for word in bare if word not in known and not word.isdigit() and word[1:] not in copies]
    assert not left, f"cannot read {left} in: {line}"
    default = None if kind != "submodel" or "until" in bare else 1
    return Part(
        name, kind, frozenset(bare) & known, numbers[0] if numbers else default, copies[0] if copies else None, settings
    )


def _free(stem: str, ports: Mapping[str, Any]) -> str:
    names = [stem, *(f"{stem}{number}" for number in range(2, len(ports) + 3))]
    return next(name for name in names if name not in ports)


def model(text: str) -> Model:
    """Return the effective model that the text describes."""
    return effective(Sketch.of(text))


def effective(sketch: Sketch) -> Model:
    """Return the effective model of a sketch."""
    filters = {name: _filter(name) for way in sketch.ways for name, _ in way.filters}
    definitions = {part.id: _definition(part) for part in sketch.parts.values()}
    instances = {part.id: _instance(part, definitions[part.id]) for part in sketch.parts.values()}
    couplings = tuple(
        Coupling(
            name=None,
            sender=way.sender,
            receiver=way.receiver,
            size_bytes=way.size,
            filters=tuple(AppliedFilter(filters[name], factor) for name, factor in way.filters),
            capacity=way.capacity,
        )
        for way in sketch.ways
    )
    return Model(
        id="small",
        path="small.xmml",
        xmml_version="0.4",
        filters=read_only(filters),
        definitions=read_only(definitions),
        instances=read_only(instances),
        couplings=couplings,
    )


def _filter(name: str) -> Filter:
    own = name in OWN_FILTERS
    type_ = cast(Literal["interpolation", "reduction", "converter"], name if own else FILTER_TYPES.get(name))
    return Filter(id=name, type=type_ or "converter", class_=f"own:{name}" if own else None)


def _scale(name: str, kind: ScaleKind, extent: tuple[str, str] | None) -> Scale:
    if extent is None:
        return Scale(name, kind)
    delta, total = (Range.of(units.parse(text)) for text in extent)
    return Scale(name, kind, delta, total)


def _definition(part: Part) -> Definition:
    is_submodel = part.kind == "submodel"
    settings = part.settings
    return Definition(
        id=part.id,
        kind=part.kind,
        class_=settings.get("class"),
        type=None if is_submodel else part.mapper_type if part.kind == "mapper" else part.terminal_type,
        stateful="yes" if "stateful" in part.words else "no",
        timescale=_scale("t", "time", part.times) if is_submodel else None,
        spacescales=(_scale("x", "space", part.space),) if is_submodel and part.space else (),
        ports=read_only(
            {
                name: Port(
                    name,
                    cast(Literal["in", "out"], direction),
                    cast(Operator, operator),
                    type=cast(Literal["state", "normal"], type_),
                )
                for name, (direction, operator, type_) in part.ports.items()
            }
        ),
        params=read_only(part.params),
        implementation=Implementation(
            cores=int(settings["cores"]) if "cores" in settings else None,
            runtime_s=float(settings["runtime"]) if "runtime" in settings else None,
        )
        if {"cores", "runtime"} & set(settings)
        else None,
    )


def _instance(part: Part, definition: Definition) -> Instance:
    times = definition.timescale
    until = "until" in part.words
    steps = (times.steps if times else None) or 0
    without_inputs = not any(port.direction == "in" for port in definition.ports.values())
    return Instance(
        id=part.id,
        kind=part.kind,
        definition=definition,
        timescale=times,
        spacescales=definition.spacescales,
        params=definition.params,
        init="init" in part.words or (without_inputs and part.kind != "terminal"),
        stateful=definition.stateful,
        domain=part.settings.get("domain"),
        multiplicity="dynamic" if part.copies == "*" else int(part.copies or 1),
        steps=steps if until else max(steps, 1),
        delta_s=float(times.delta.mean.value) if times and times.delta and times.delta.mean else None,
        total_s=float(times.total.mean.value) if times and times.total and times.total.mean else None,
        until=until,
        check_order="free" not in part.words,
    )


def document(text: str, implementations: Mapping[str, str] | None = None) -> str:
    """Return the model as an xMML document; `implementations` are elements to put in, by instance."""
    return written(Sketch.of(text), implementations or {})


def written(sketch: Sketch, implementations: Mapping[str, str]) -> str:
    """Return the xMML document of a sketch, with these `implementation` elements."""
    filters = {name: _filter(name) for way in sketch.ways for name, _ in way.filters}
    lines = [HEAD, "<definitions>\n"]
    for each in filters.values():
        class_ = f' class="{each.class_}"' if each.class_ else ""
        lines.append(f'  <filter id="{each.id}" type="{each.type}"{class_}/>\n')
    lines += [_definition_text(part, implementations.get(part.id)) for part in sketch.parts.values()]
    lines.append("</definitions>\n<topology>\n")
    lines += [_instance_text(part) for part in sketch.parts.values()]
    lines += [_coupling_text(way) for way in sketch.ways]
    lines.append("</topology>\n</model>\n")
    return "".join(lines)


def _definition_text(part: Part, implementation: str | None) -> str:
    definition = _definition(part)
    type_ = f' type="{definition.type}"' if definition.type else ""
    stateful = ' stateful="yes"' if "stateful" in part.words else ""
    class_ = f' class="{definition.class_}"' if definition.class_ else ""
    lines = [f'  <{part.kind} id="{part.id}"{class_}{type_}{stateful}>\n']
    if part.kind == "submodel":
        times = ' delta="{}" total="{}"'.format(*part.times) if part.times else ""
        lines.append(f"    <timescale{times}/>\n")
        if part.space:
            lines.append('    <spacescale id="x" delta="{}" total="{}"/>\n'.format(*part.space))
    lines += [f'    <param id="{name}" value="{value}"/>\n' for name, value in part.params.items()]
    lines.append("    <ports>")
    for name, (direction, operator, port_type) in part.ports.items():
        attributes = (f' operator="{operator}"' if operator else "") + (' type="state"' * (port_type == "state"))
        lines.append(f' <{direction} id="{name}"{attributes}/>')
    lines.append(" </ports>\n")
    figures = [f' cores="{part.settings["cores"]}"'] if "cores" in part.settings else []
    figures += [f' runtime="{part.settings["runtime"]} s"'] if "runtime" in part.settings else []
    if implementation or figures:
        lines.append("    " + (implementation or f"<implementation{''.join(figures)}/>") + "\n")
    lines.append(f"  </{part.kind}>\n")
    return "".join(lines)


def _instance_text(part: Part) -> str:
    init = ' init="yes"' if "init" in part.words else ""
    copies = {None: "", "*": ' multiplicity="dynamic"'}.get(part.copies, f' multiplicity="{part.copies}"')
    domain = f' domain="{part.settings["domain"]}"' if "domain" in part.settings else ""
    settings = ' run:steps="until"' if "until" in part.words else ""
    settings += ' run:order="free"' if "free" in part.words else ""
    return f'  <instance id="{part.id}" {part.kind}="{part.id}"{init}{copies}{domain}{settings}/>\n'


def _coupling_text(way: Way) -> str:
    size = f' size="{way.size:g} B"' if way.size is not None else ""
    capacity = f' run:capacity="{way.capacity}"' if way.capacity else ""
    applies = "".join(
        f'<apply filter="{name}"' + (f' factor="{factor:g}"' if factor is not None else "") + "/>"
        for name, factor in way.filters
    )
    return f'  <coupling from="{way.sender}" to="{way.receiver}"{size}{capacity}>{applies}</coupling>\n'
