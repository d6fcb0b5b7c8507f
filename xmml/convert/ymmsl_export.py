"""A model as yMMSL 0.1 or 0.2, the configuration files of MUSCLE3."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import yaml

from xmml.convert.converted import Converted, without_repetition
from xmml.convert.ymmsl_timelines import Link, matching_timelines
from xmml.model import Coupling, Definition, Implementation, Instance, Model, Port

_OPERATORS: Mapping[str | None, str] = {"finit": "f_init", "Oi": "o_i", "S": "s", "B": "s", "Of": "o_f"}
#: How much state a submodel keeps from run to run.
_KEEPS_STATE = {"yes": "necessary", "no": "no", "optional": "helpful"}
_BEGIN_OF_NUMBERS = tuple("+-.0123456789")
_INTEGER = re.compile(r"[+-]?\d{1,300}")
_REAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def to_ymmsl(model: Model, version: Literal["0.1", "0.2"] = "0.2") -> Converted:
    """Return the model as a yMMSL file, with notes on what it lacks.

    Scales become the settings `dt` and `t_max` (in seconds) that MUSCLE3 programs use by custom. Linear in instances
    plus couplings.
    """
    export = _Export(model, version)
    text = yaml.dump(export.document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return Converted(text, without_repetition(export.notes))


_Key = TypeVar("_Key")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and nothing as an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    """Write a text so that the reader of MUSCLE3 takes it as one: it takes any that begins like a number as that."""
    style = "|" if "\n" in text else "'" if text[:1] in _BEGIN_OF_NUMBERS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


class _Export:
    def __init__(self, model: Model, version: str) -> None:
        self.model = model
        self.version = version
        self.notes: list[str] = []
        self.components = self.identifiers({name: name for name in model.instances}, "instance")
        self.dropped: set[int] = set()  # identities of couplings whose filters would lead to another depth of timelines
        self.first_made: dict[tuple[str, str], Instance] = {}  # by kind and id of what it is made of
        for instance in model.instances.values():
            self.first_made.setdefault(_key(instance.definition), instance)
        self.programs = self.identifiers({key: key[1] for key in self.first_made}, "definition")
        self.name = self.identifiers({0: model.id}, "model")[0]

    def identifiers(self, ids: Mapping[_Key, str], what: str) -> dict[_Key, str]:
        """Return for each key an id that yMMSL can have: letters, digits and underscores."""
        found: dict[_Key, str] = {}
        taken: set[str] = set()
        for key, each in ids.items():
            name = re.sub(r"\W", "_", each, flags=re.ASCII)
            if not re.match(r"[A-Za-z_]", name):
                name = f"_{name}"
            while name in taken:
                name += "_"
            taken.add(name)
            if name != each:
                self.notes.append(f'the {what} "{each}" is called {name}: yMMSL knows letters, digits and _ in names')
            found[key] = name
        return found

    def document(self) -> dict[str, Any]:
        couplings = [coupling for coupling in self.model.couplings if not self.model.carries_state(coupling)]
        matching = self.matching_timelines(couplings) if self.version == "0.2" else {}
        self.note_couplings(couplings)
        conduits = self.conduits(couplings)
        components = {self.components[each.id]: self.component(each) for each in self.model.instances.values()}
        settings = {name: value for each in self.model.instances.values() for name, value in self.settings(each)}
        programs = self.program_sections()
        document: dict[str, Any] = {"ymmsl_version": f"v{self.version}"}
        description = self.model.description or self.model.name
        if self.version == "0.1":
            if description:
                document["description"] = description
            model = {"name": self.name, "components": components}
            document["model"] = model | ({"conduits": conduits} if conduits else {})
            sections = {"settings": settings, "implementations": programs, "resources": self.resources("")}
        else:
            model = {"description": description or self.model.id, "components": components}
            if matching:
                model["matching_timelines"] = matching
            document["models"] = {self.name: model | ({"conduits": conduits} if conduits else {})}
            sections = {"settings": settings, "programs": programs, "resources": self.resources(f"{self.name}.")}
        self.note_rest()
        return document | {name: section for name, section in sections.items() if section}

    # Components

    def component(self, instance: Instance) -> dict[str, Any]:
        component: dict[str, Any] = {}
        ports = self.ports(instance)
        if ports or self.version == "0.2":
            component["ports"] = ports
        if self.version == "0.2":
            component["description"] = instance.definition.description or instance.definition.name or instance.id
        if isinstance(instance.multiplicity, int) and instance.multiplicity > 1:
            component["multiplicity"] = instance.multiplicity
        elif instance.multiplicity == "dynamic":
            self.notes.append(f"{instance.id} has a dynamic multiplicity; it stands there once")
        if self.program(instance.definition) is not None:
            component["implementation"] = self.programs[_key(instance.definition)]
        else:
            self.notes.append(
                f"{instance.id} has no implementation: {_why_no_program(instance.definition)}, "
                "which only the xMML runtime can host"
            )
        return component

    def ports(self, instance: Instance) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        for port in instance.ports.values():
            operator = self.operator(instance, port)
            if operator is None:
                self.notes.append(f"the port {instance.id}.{port.id} has no operator and is left out")
                continue
            if port.operator == "B":
                self.notes.append(f"{instance.id}.{port.id} receives on operator B, which yMMSL does not tell from S")
            if not re.fullmatch(r"[A-Za-z_]\w*", port.id, flags=re.ASCII):
                self.notes.append(f"the port {instance.id}.{port.id} is called {_identifier(port.id)}")
            found.setdefault(operator, []).append(_identifier(port.id))
        return {operator: " ".join(found[operator]) for operator in ("f_init", "o_i", "s", "o_f") if operator in found}

    def operator(self, instance: Instance, port: Port) -> str | None:
        """Return the operator of a port in yMMSL, where also mappers and terminals have some."""
        if instance.kind == "submodel":
            return _OPERATORS.get(port.operator)
        if port.direction == "in":
            return "f_init"
        if instance.kind == "terminal" and any(
            self.model.port(coupling.receiver).operator in ("S", "B")
            for coupling in self.model.couplings
            if coupling.sender.instance == instance.id
        ):
            return "o_i"
        return "o_f"

    # Conduits

    def conduits(self, couplings: Iterable[Coupling]) -> dict[str, Any]:
        receivers: dict[str, list[str]] = {}
        for coupling in couplings:
            sender, receiver = self.end(coupling.sender), self.end(coupling.receiver)
            words = [*self.filters(coupling), ".".join(receiver)]
            receivers.setdefault(".".join(sender), []).append(" ".join(words))
        return {sender: its[0] if len(its) == 1 else its for sender, its in receivers.items()}

    def end(self, end: Any) -> tuple[str, str]:
        return self.components[end.instance], _identifier(end.port)

    def filters(self, coupling: Coupling) -> tuple[str, ...]:
        """Return the filters of a coupling that MUSCLE3 has as well."""
        if self.version == "0.1" or id(coupling) in self.dropped:
            return ()
        names = [each.definition.builtin for each in coupling.filters]
        return tuple(name for name in names if name in ("last", "repeat"))

    def note_couplings(self, couplings: Sequence[Coupling]) -> None:
        self.notes += [f"the pool {pool} is left out: MUSCLE3 has none" for pool in self.model.pools]
        for coupling in self.model.couplings:
            if self.model.carries_state(coupling):
                self.notes.append(
                    f"the coupling {coupling} is left out: programs of MUSCLE3 keep their state themselves"
                )
        for coupling in couplings:
            kept = self.filters(coupling)
            for applied in coupling.filters:
                name = applied.definition.builtin or applied.definition.id
                if name not in kept:
                    self.notes.append(f"the filter {name} of {coupling} is left out: {self.why_no_filter(name)}")
                elif name == "repeat":
                    self.notes.append(f"repeat of {coupling} repeats in yMMSL as often as the receiver asks")
            if coupling.has_run_options:
                self.notes.append(f"run: attributes of the coupling {coupling} are left out")
            if coupling.name:
                self.notes.append("names of couplings are left out")

    def why_no_filter(self, name: str) -> str:
        if self.version == "0.1":
            return "yMMSL 0.1 has no filters"
        if name in ("last", "repeat"):
            return f"{name} leads from one depth of calls to another there, and these ends are of the same"
        return "yMMSL 0.2 has only last and repeat"

    def matching_timelines(self, couplings: Sequence[Coupling]) -> dict[str, str]:
        operators = {
            (self.components[instance.id], _identifier(port.id)): operator
            for instance in self.model.instances.values()
            for port in instance.ports.values()
            if (operator := self.operator(instance, port)) is not None
        }

        def links() -> list[Link]:
            return [Link(self.end(each.sender), self.end(each.receiver), self.filters(each)) for each in couplings]

        wrong = set(matching_timelines(operators, links()).unmatched)
        self.dropped = {
            id(coupling) for coupling, link in zip(couplings, links(), strict=True) if link.filters and link in wrong
        }
        matches = matching_timelines(operators, links())
        for link in matches.unmatched:
            ends = f"{'.'.join(link.sender)} and {'.'.join(link.receiver)}"
            self.notes.append(
                f"{ends} are on timelines of different depth, which MUSCLE3 refuses without other filters"
            )
        texts = [[":".join(timeline) for timeline in group] for group in matches.sets]
        return {first: " ".join(others) for first, *others in texts}

    # Settings

    def settings(self, instance: Instance) -> Iterator[tuple[str, Any]]:
        component = self.components[instance.id]
        for name, value in self.with_scales(instance).items():
            yield f"{component}.{_identifier(name)}", value
        for copy, params in instance.copy_params.items():
            for name, text in params.items():
                yield f"{component}[{copy}].{_identifier(name)}", setting_value(text)

    def with_scales(self, instance: Instance) -> dict[str, Any]:
        values = {name: setting_value(text) for name, text in instance.params.items()}
        for name in instance.params:
            if name != _identifier(name):
                self.notes.append(f'the parameter "{name}" of {instance.id} is called {_identifier(name)}')
        if instance.kind != "submodel":
            return values
        scales = {"dt": instance.delta_s, "t_max": instance.total_s}
        scales = {name: value for name, value in scales.items() if value is not None and name not in values}
        if scales:
            self.notes.append(
                "time scales are written as the settings dt and t_max, in seconds, as MUSCLE3 programs have them"
            )
        return values | scales

    # Programs

    def program_sections(self) -> dict[str, Any]:
        sections: dict[str, Any] = {}
        for instance in self.model.instances.values():
            definition = instance.definition
            program = self.program(definition)
            if program is None:
                continue
            keeps = _KEEPS_STATE[instance.stateful]
            section = sections.setdefault(
                self.programs[_key(definition)], program | {"keeps_state_for_next_use": keeps}
            )
            if section["keeps_state_for_next_use"] != keeps:
                self.notes.append(f"instances of {definition.id} differ in what state they keep; the first one counts")
        if sections:
            self.notes.append(
                "programs stand there with their paths as in the model; to run under MUSCLE3 they need its library"
            )
        return sections

    def program(self, definition: Definition) -> dict[str, Any] | None:
        """Return how a program is started; `None` if it is not a program of its own."""
        implementation = definition.implementation
        if implementation is None or implementation.path is None or definition.class_ is not None:
            return None
        command = [*_interpreter(implementation), implementation.path, *implementation.run.args]
        program: dict[str, Any] = {}
        if self.version == "0.2":
            program["ports"] = self.ports(self.first_made[_key(definition)])
            program["description"] = definition.description or definition.name or definition.id
        if implementation.run.env:
            program["env"] = dict(implementation.run.env)
        if implementation.run.mpi is not None:
            program["execution_model"] = "openmpi"
        program["executable"] = command[0]
        if command[1:]:
            program["args"] = command[1:]
        return program

    def resources(self, prefix: str) -> dict[str, Any]:
        found = {}
        for instance in self.model.instances.values():
            implementation = instance.definition.implementation
            if implementation is None or self.program(instance.definition) is None:
                continue
            run = implementation.run
            if run.mpi is None:
                need = {"threads": run.threads or implementation.cores or 1}
            else:
                need = {"mpi_processes": run.mpi}
                if (run.threads or 1) > 1:
                    need["threads_per_mpi_process"] = run.threads or 1
            found[f"{prefix}{self.components[instance.id]}"] = need
        return found

    def note_rest(self) -> None:
        """Note what yMMSL has no place for at all."""
        instances = self.model.instances.values()
        if any(each.spacescales or each.otherscales for each in instances):
            self.notes.append("scales other than time are left out")
        if any(each.domain for each in instances):
            self.notes.append("domains are left out")
        if self.model.datatypes:
            self.notes.append("datatypes and sizes of messages are left out")
        for definition in [each.definition for each in self.first_made.values()]:
            implementation = definition.implementation
            if implementation is None:
                continue
            lost = {
                "memory": implementation.memory_bytes,
                "run time": implementation.runtime_s,
                "libraries": implementation.libraries,
                "platforms": implementation.platforms,
                "build command": implementation.run.build,
                "files to stage": implementation.run.stage_in or implementation.run.stage_out,
                "GPUs": implementation.run.gpus,
                "host": implementation.run.host,
                "binding to cores": implementation.run.bind,
                "image": implementation.run.image,
            }
            names = [name for name, value in lost.items() if value]
            if names:
                self.notes.append(f"{', '.join(names)} of {definition.id}: left out")


def _key(definition: Definition) -> tuple[str, str]:
    """Return what tells definitions apart: ids may be equal if kinds differ."""
    return definition.kind, definition.id


def _interpreter(implementation: Implementation) -> list[str]:
    for interpreter in implementation.interpreters:
        program = interpreter.path or interpreter.name
        if program:
            return [program, *(interpreter.flags or "").split()]
    return ["python3"] if (implementation.language or "").lower().startswith("python") else []


def _why_no_program(definition: Definition) -> str:
    if definition.class_ is not None:
        return f"its class is {definition.class_}"
    if definition.implementation is not None and definition.implementation.codes:
        return "its code stands in the model"
    return "the model names no program"


def _identifier(name: str) -> str:
    fitting = re.sub(r"\W", "_", name, flags=re.ASCII)
    return fitting if re.match(r"[A-Za-z_]", fitting) else f"_{fitting}"


def setting_value(text: str) -> Any:
    """Return the value that a parameter's text stands for: bool, int, float, a list of numbers, else the text."""
    stripped = text.strip()
    if stripped in ("true", "false"):
        return stripped == "true"
    if _INTEGER.fullmatch(stripped):
        return int(stripped)
    if _REAL.fullmatch(stripped) and math.isfinite(float(stripped)):
        return float(stripped)
    if stripped.startswith("[") and len(stripped) < 100_000:
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError):
            return text
        if _is_list_of_numbers(value):
            return value if all(isinstance(each, int) for each in value) else _as_floats(value)
        if isinstance(value, list) and all(_is_list_of_numbers(row) for row in value):
            return [_as_floats(row) for row in value]
    return text


def _is_list_of_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) in (int, float) for each in value)


def _as_floats(numbers: Iterable[int | float]) -> list[float]:
    """Return numbers of one type: yMMSL does not mix them in a list."""
    return [float(each) for each in numbers]
