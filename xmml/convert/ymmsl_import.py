"""A yMMSL file as an xMML document."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from lxml import etree

from xmml.convert.converted import Converted, without_repetition
from xmml.convert.cxa import number_text
from xmml.convert.ymmsl_file import Program, Resources, SettingValue, YmmslFile
from xmml.convert.ymmsl_flat import FlatConduit, FlatModel, Part, Path, flatten
from xmml.convert.ymmsl_reader import read_ymmsl
from xmml.convert.ymmsl_settings import Parameters, distribute, setting_text
from xmml.late_dataclass import dataclass
from xmml.run_options import SETTINGS, SettingError
from xmml.tree import RUN, XMML

_OPERATORS = {"f_init": "finit", "o_i": "Oi", "s": "S", "o_f": "Of"}
_PREFIXES: Mapping[str | None, str] = {None: XMML, "run": RUN}
_STATEFUL = {"necessary": "yes", "helpful": "optional", "no": None}
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
_FILTER_TYPES = {"last": "reduction", "repeat": "interpolation"}


def ymmsl_to_xmml(path: str | os.PathLike[str]) -> Converted:
    """Return a yMMSL file as an xMML document, with notes on what was assumed or left out.

    Raises:
        ModelError: the file cannot be read, or contradicts itself.
    """
    return to_xmml(read_ymmsl(path))


def to_xmml(file: YmmslFile) -> Converted:
    """Return what a yMMSL file says as an xMML document; otherwise like `ymmsl_to_xmml`."""
    conversion = _Import(file, flatten(file))
    root = conversion.document()
    etree.indent(root)
    text = etree.tostring(root, xml_declaration=True, encoding="UTF-8").decode("utf-8") + "\n"
    return Converted(text, without_repetition(conversion.notes))


@dataclass(frozen=True)
class _TimeScale:
    """The time scale of a part, in seconds, as the settings dt and t_max say it."""

    delta: float | None
    total: float | None

    @property
    def steps(self) -> int | None:
        """How many steps a run has; `None` if the program decides."""
        if self.delta is None or self.total is None or self.total < self.delta:
            return None
        return math.floor(self.total / self.delta + 0.5)


class _Import:
    def __init__(self, file: YmmslFile, flat: FlatModel) -> None:
        self.file, self.flat = file, flat
        self.notes = [*flat.notes]
        self.parameters = distribute(file, flat.parts, self.notes)
        self.ids = _ids(flat.parts)
        self.operators = {part.path: part.operators for part in flat.parts}
        self.entering: dict[Path, list[FlatConduit]] = {}  # conduits into f_init ports
        for conduit in flat.conduits:
            if self.operator(conduit.receiver) == "f_init":
                self.entering.setdefault(conduit.receiver[0], []).append(conduit)
        self.definitions = self.definition_ids()
        self.scales = {part.path: self.time_scale(part) for part in flat.parts}

    def operator(self, end: tuple[Path, str]) -> str | None:
        return self.operators[end[0]].get(end[1])

    def document(self) -> Any:
        attributes = {"id": _id(self.flat.model.name), "xmml_version": "0.4"}
        root = etree.Element(_tag("model"), attributes, _PREFIXES)  # type: ignore[arg-type]
        description = self.flat.model.description or self.file.description
        if description:
            etree.SubElement(root, _tag("description")).text = description
        definitions, topology = etree.SubElement(root, _tag("definitions")), etree.SubElement(root, _tag("topology"))
        filters = dict.fromkeys(name for conduit in self.flat.conduits for name in conduit.filters if name != "pad")
        for name in filters:
            etree.SubElement(definitions, _tag("filter"), {"id": name, "class": name, "type": _FILTER_TYPES[name]})
        written: set[str] = set()
        for part in self.flat.parts:
            if self.definitions[part.path] not in written:
                written.add(self.definitions[part.path])
                self.submodel(definitions, part)
        for part in self.flat.parts:
            self.instance(topology, part)
        self.couplings(definitions, topology)
        self.note_rest()
        return root

    # Definitions

    def definition_ids(self) -> dict[Path, str]:
        """Return the id of the definition of each part: that of its program, if all its users are alike."""
        kinds: dict[str, list[tuple[Any, ...]]] = {}
        found = {}
        for part in self.flat.parts:
            name = _id(part.implementation) if part.implementation else self.ids[part.path]
            kind = (part.implementation, part.operators, self.resources(part))
            if kind not in kinds.setdefault(name, []):
                kinds[name].append(kind)
            place = kinds[name].index(kind)
            found[part.path] = name if place == 0 else f"{name}_{place + 1}"
        return found

    def resources(self, part: Part) -> Resources:
        prefix = () if self.file.version == "0.1" else (self.flat.model.name,)
        return self.file.resources.get(".".join((*prefix, *part.path)), Resources())

    def submodel(self, definitions: Any, part: Part) -> None:
        submodel = etree.SubElement(definitions, _tag("submodel"), {"id": self.definitions[part.path]})
        stateful = _STATEFUL[part.program.keeps_state] if part.program else None
        if stateful is not None and "f_init" in part.operators.values():
            submodel.set("stateful", stateful)
        description = (part.program.description if part.program else "") or part.component.description
        if description:
            etree.SubElement(submodel, _tag("description")).text = description
        etree.SubElement(submodel, _tag("timescale"))
        ports = etree.SubElement(submodel, _tag("ports"))
        for port, operator in part.operators.items():
            direction = "in" if operator in ("f_init", "s") else "out"
            etree.SubElement(ports, _tag(direction), {"id": port, "operator": _OPERATORS[operator]})
        if part.program is not None:
            self.implementation(submodel, part.program, self.resources(part))
        elif part.implementation is not None:
            self.notes.append(
                f"the file does not hold the program {part.implementation}: {submodel.get('id')} has none"
            )
        else:
            self.notes.append(f"{'.'.join(part.path)} has no implementation")

    def implementation(self, submodel: Any, program: Program, resources: Resources) -> None:
        attributes: dict[str, str] = {}
        interpreter = ""
        args = list(program.args)
        if program.script is not None:
            attributes["path"], args = "/bin/sh", ["-c", program.script]
        elif program.executable and _PYTHON.fullmatch(program.executable) and args and not args[0].startswith("-"):
            attributes |= {"language": "python", "path": args.pop(0)}
            interpreter = "" if program.executable in ("python", "python3") else program.executable
        elif program.executable:
            attributes["path"] = program.executable
        if args:
            attributes[_run("args")] = shlex.join(args)
        env = self.environment(program)
        if env:
            attributes[_run("env")] = env
        if resources.mpi_processes is not None:
            attributes[_run("mpi")] = str(resources.mpi_processes)
            if resources.threads_per_mpi_process > 1:
                attributes[_run("threads")] = str(resources.threads_per_mpi_process)
        elif (resources.threads or 1) > 1:
            attributes[_run("threads")] = str(resources.threads)
        node = etree.SubElement(submodel, _tag("implementation"), attributes)
        if interpreter:
            etree.SubElement(node, _tag("interpreter"), {"path": interpreter})
        self.note_program(program, resources)

    def environment(self, program: Program) -> str:
        words = []
        for name, value in program.env.items():
            word = f"{name}={value}"
            try:
                SETTINGS["env"].read(shlex.quote(word))
            except SettingError:
                self.notes.append(f"the variable {name} of {program.name} is left out: such a name cannot be set here")
                continue
            words.append(f"{name}={shlex.quote(value)}")
        return " ".join(words)

    def note_program(self, program: Program, resources: Resources) -> None:
        if program.surroundings:
            self.notes.append(f"{', '.join(program.surroundings)} of {program.name}: left out")
        if not program.can_share_resources:
            self.notes.append(f"that {program.name} does not share its cores is left out")
        if program.execution_model not in ("direct", "manual"):
            if resources.mpi_processes is None:
                self.notes.append(f"{program.name} is an MPI program, but the file does not say of how many ranks")
            if program.execution_model != "openmpi":
                self.notes.append(
                    f"{program.name} is started with the MPI launcher that is there, not {program.execution_model}"
                )
        if program.execution_model == "manual":
            self.notes.append(f"{program.name} is started by hand under MUSCLE3; xmml-run needs a program")

    # Instances

    def time_scale(self, part: Part) -> _TimeScale:
        params = self.parameters[part.path].of_all
        found = _TimeScale(*(_positive(params.get(name)) for name in ("dt", "t_max")))
        if found.delta is not None or found.total is not None:
            self.notes.append("the settings dt and t_max are taken for the time scale, in seconds")
        if found.delta is not None and found.total is not None and found.total < found.delta:
            self.notes.append(f"t_max of {'.'.join(part.path)} is smaller than its dt, and is left out")
            return _TimeScale(found.delta, None)
        return found

    def instance(self, topology: Any, part: Part) -> None:
        attributes = {"id": self.ids[part.path], "submodel": self.definitions[part.path]}
        loops = {"o_i", "s"} & set(part.operators.values())
        if "s" in part.operators.values() and part.path not in self.entering:
            attributes["init"] = "yes"
        if len(part.multiplicity) > 1:
            shape = " x ".join(map(str, part.multiplicity))
            self.notes.append(f"the copies of {attributes['id']}, {shape}, are numbered through")
        if math.prod(part.multiplicity) > 1:
            attributes["multiplicity"] = str(math.prod(part.multiplicity))
        scale = self.scales[part.path]
        if scale.steps is None and loops:
            attributes[_run("steps")] = "until"
            self.notes.append(f"{attributes['id']} decides by itself when to stop: the file has no dt and t_max for it")
        instance = etree.SubElement(topology, _tag("instance"), attributes)
        values = {"delta": scale.delta, "total": scale.total}
        texts = {name: f"{number_text(value)} s" for name, value in values.items() if value is not None}
        if texts:
            etree.SubElement(instance, _tag("timescale"), texts)
        self.params(instance, self.parameters[part.path])

    def params(self, instance: Any, parameters: Parameters) -> None:
        for name, value in parameters.of_all.items():
            etree.SubElement(instance, _tag("param"), {"id": name, "value": setting_text(value)})
        if parameters.of_copies:
            extra = etree.SubElement(instance, _tag("extra"))
            for index, single in sorted(parameters.of_copies.items()):
                for name, value in single.items():
                    attributes = {"index": str(index), "param": name, "value": setting_text(value)}
                    etree.SubElement(extra, f"{{{RUN}}}copy", attributes)

    # Couplings

    def couplings(self, definitions: Any, topology: Any) -> None:
        copies = {part.path: math.prod(part.multiplicity) for part in self.flat.parts}
        between: list[tuple[str, str, FlatConduit]] = []
        mappers: dict[str, str] = {}
        for conduit in self.flat.conduits:
            sender, receiver = (f"{self.ids[path]}.{port}" for path, port in (conduit.sender, conduit.receiver))
            if copies[conduit.sender[0]] > 1:
                sender = self.mapper(topology, mappers, "gather", sender, between, conduit)
            if copies[conduit.receiver[0]] > 1:
                receiver = self.mapper(topology, mappers, "scatter", receiver, between, conduit)
            between.append((sender, receiver, conduit))
        for class_ in dict.fromkeys(mappers.values()):
            mapper = etree.SubElement(
                definitions, _tag("mapper"), {"id": class_, "class": class_, "type": _MAPPER_TYPES[class_]}
            )
            ports = etree.SubElement(mapper, _tag("ports"))
            etree.SubElement(ports, _tag("in"), {"id": "in"})
            etree.SubElement(ports, _tag("out"), {"id": "out"})
        for sender, receiver, conduit in between:
            coupling = etree.SubElement(topology, _tag("coupling"), {"from": sender, "to": receiver})
            for name in conduit.filters if receiver == self.port(conduit.receiver) else ():
                self.apply(coupling, name, conduit)

    def port(self, end: tuple[Path, str]) -> str:
        return f"{self.ids[end[0]]}.{end[1]}"

    def mapper(
        self,
        topology: Any,
        mappers: dict[str, str],
        class_: str,
        end: str,
        between: list[tuple[str, str, FlatConduit]],
        conduit: FlatConduit,
    ) -> str:
        """Put a mapper between copies and what they are coupled to; return its free port."""
        name = f"{class_}_{end.replace('.', '_')}"
        if name not in mappers:
            mappers[name] = class_
            etree.SubElement(topology, _tag("instance"), {"id": name, "mapper": class_})
            between.append((end, f"{name}.in", conduit) if class_ == "gather" else (f"{name}.out", end, conduit))
            self.notes.append(
                f"{name}, a mapper, stands between the copies and their partner: it "
                + ("joins their messages into one" if class_ == "gather" else "divides one message among them")
            )
        return f"{name}.out" if class_ == "gather" else f"{name}.in"

    def apply(self, coupling: Any, name: str, conduit: FlatConduit) -> None:
        ends = f"{coupling.get('from')} -> {coupling.get('to')}"
        if name == "pad":
            self.notes.append(f"the filter pad of {ends} is left out: a message repeated as nothing has no counterpart")
            return
        attributes = {"filter": name}
        if name == "repeat":
            times = self.repetitions(conduit)
            if times is None:
                self.notes.append(f"the filter repeat of {ends} needs a factor: how often its receiver asks")
            else:
                attributes["factor"] = str(times)
        etree.SubElement(coupling, _tag("apply"), attributes)

    def repetitions(self, conduit: FlatConduit) -> int | None:
        """Return how often the receiver of a repeated message asks for it: its steps, or its caller's."""
        path = conduit.receiver[0]
        if self.operator(conduit.receiver) == "s":
            return self.scales[path].steps
        for other in self.entering.get(path, ()):
            if other is not conduit and self.operator(other.sender) == "o_i":
                return self.scales[other.sender[0]].steps
        return None

    def note_rest(self) -> None:
        if self.file.left_out:
            self.notes.append(f"left out: {', '.join(self.file.left_out)}")
        if self.flat.model.has_matching_timelines:
            self.notes.append("matching timelines are left out: equal time scales say the same")
        if len(self.file.models) > 1:
            self.notes.append("models inside models are unfolded: their components carry their path in the name")
        used = {part.implementation for part in self.flat.parts}
        unused = [name for name in self.file.programs if name not in used]
        if unused:
            self.notes.append(f"programs that no component uses are left out: {', '.join(unused)}")


_MAPPER_TYPES: Mapping[str, str] = {"gather": "fan-in", "scatter": "fan-out"}


def _positive(value: SettingValue | None) -> float | None:
    """Return a setting as a positive number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
        return None
    return float(value)


def _ids(parts: tuple[Part, ...]) -> dict[Path, str]:
    """Return an id for each part: its path, joined by underscores."""
    found: dict[Path, str] = {}
    taken: set[str] = set()
    for part in parts:
        name = _id("_".join(part.path))
        while name in taken:
            name += "_"
        taken.add(name)
        found[part.path] = name
    return found


def _id(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def _tag(name: str) -> str:
    return f"{{{XMML}}}{name}"


def _run(name: str) -> str:
    return f"{{{RUN}}}{name}"
