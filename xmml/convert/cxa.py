"""A model as a CxA, the Ruby script by which MUSCLE 2 is told of a coupled simulation.

The order is that of the published exporter: class and library paths, the time limit, kernels, parameters, couplings.
Where that one is known to be wrong (the total of an instance was the largest total so far), this one is right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from xmml.builtins import FILTERS
from xmml.convert.converted import Converted, without_repetition
from xmml.model import AppliedFilter, Coupling, Definition, Instance, Model
from xmml.scales import Range, Scale
from xmml.tree import RUN
from xmml.units import Quantity

#: More cores than this make a native kernel an MPI kernel.
_MOST_CORES_WITHOUT_MPI = 12
#: The filters that MUSCLE 2 has by name: ours, without those that it lacks.
_FILTERS = frozenset(FILTERS) - {"convert", "extrapolate", "last", "mean", "repeat", "sum"}
_DIMENSION_NAMES = "xyzuvw"
_MOST_DIMENSIONS = 100
_RUBY_WORD = re.compile(
    "__ENCODING__|__FILE__|__LINE__|BEGIN|END|alias|and|begin|break|case|class|def|defined|do|else|elsif|end|ensure|"
    "false|for|if|in|module|next|nil|not|or|redo|rescue|retry|return|self|super|then|true|undef|unless|until|when|"
    "while|yield"
)
#: The attributes of an implementation that xMML itself has.
_IMPLEMENTATION = frozenset({"size", "runtime", "memory", "cores", "language", "path"})
_NUMBER = re.compile(r"-?(\d+(\.\d+)?|\.\d+)([eE]-?\d+)?")


def to_cxa(model: Model) -> Converted:
    """Return the model as a CxA script, with notes on what MUSCLE 2 cannot do.

    Linear in instances plus couplings.
    """
    names = _variables(model.instances)
    mpi = _mpi_definitions(model)
    kernels = [_kernel(names[instance.id], instance, mpi) for instance in model.instances.values()]
    parameters = [line for instance in model.instances.values() for line in _parameters(names[instance.id], instance)]
    couplings = [_coupling(names, coupling) for coupling in model.couplings]
    parts = [_paths(model), _time_limit(model), kernels, parameters, couplings]
    text = "\n\n".join("\n".join(part) for part in parts if part) + "\n"
    return Converted(text, without_repetition(_notes(model, names)))


def _paths(model: Model) -> list[str]:
    classes, libraries = [], []
    for definition in _definitions(model):
        implementation = definition.implementation
        if implementation is None:
            continue
        language = (implementation.language or "java").lower()
        if implementation.path and language.startswith("java"):
            classes.append(implementation.path)
        libraries += [library.path for library in implementation.libraries if library.path]
    lines = []
    if classes:
        lines.append(f"add_classpath {_quoted(':'.join(dict.fromkeys(classes)))}")
    if libraries:
        lines.append(f"add_libpath {_quoted(':'.join(dict.fromkeys(libraries)))}")
    return lines


def _definitions(model: Model) -> list[Definition]:
    """Return what the instances are made of, in their order, none twice."""
    found = {(instance.kind, instance.definition.id): instance.definition for instance in model.instances.values()}
    return list(found.values())


def _time_limit(model: Model) -> list[str]:
    totals = [
        most
        for instance in model.instances.values()
        if instance.timescale is not None and (most := _most(instance.timescale.total)) is not None
    ]
    if not totals:
        return []
    return [f'$env["max_timesteps"] = {_quoted(str(max(totals, key=float)))}']


def _kernel(name: str, instance: Instance, mpi: Collection[tuple[str, str]]) -> str:
    definition, implementation = instance.definition, instance.definition.implementation
    language = ((implementation.language if implementation else None) or "").lower()
    path = implementation.path if implementation else None
    if definition.kind == "terminal":
        kind, what = "Terminal", definition.class_
    elif language.startswith("python"):
        kind, what = "PythonInstance", path or definition.class_
    elif re.match(r"(c|c-.*|c\+\+.*|fortran.*)$", language):
        is_mpi = (definition.kind, definition.id) in mpi
        kind, what = "MPIInstance" if is_mpi else "NativeInstance", path or definition.class_
    elif language.startswith("matlab"):
        kind, what = "MatlabInstance", path or definition.class_
    else:
        kind, what = "Instance", definition.class_
    arguments = [instance.id] + ([what] if what else [])
    return f"{name} = {kind}.new({', '.join(_single_quoted(argument) for argument in arguments)})"


def _mpi_definitions(model: Model) -> set[tuple[str, str]]:
    """Return kind and id of the MPI programs: they have ranks, many cores, or an attribute with "mpi" in its value."""
    found: set[tuple[str, str]] = set()
    for definition in _definitions(model):
        implementation = definition.implementation
        if implementation is not None and (
            implementation.run.mpi is not None or (implementation.cores or 0) > _MOST_CORES_WITHOUT_MPI
        ):
            found.add((definition.kind, definition.id))
    definitions = model.document.root.first("definitions") if model.document is not None else None
    for element in definitions.children if definitions is not None else []:
        written = element.first("implementation")
        if written is not None and any(
            "mpi" in attribute.value.lower()
            for attribute in written.attributes
            if attribute.namespace != RUN and (attribute.namespace or attribute.name not in _IMPLEMENTATION)
        ):
            found.add((element.name, element.get("id") or ""))
    return found


def _parameters(name: str, instance: Instance) -> Iterator[str]:
    for parameter, value in instance.params.items():
        yield _assignment(name, parameter, value if _NUMBER.fullmatch(value) else _quoted(value))
    if instance.kind != "submodel":
        return
    if instance.timescale is not None:
        yield from _range(name, "dt", _least(instance.timescale.delta))
        yield from _range(name, "T", _most(instance.timescale.total))
    scales = (*instance.spacescales, *instance.otherscales)
    ids = {scale.id for scale in scales}
    for scale in scales:
        for dimension in _dimension_names(scale, ids - {scale.id}):
            yield from _range(name, f"d{dimension}", _least(scale.delta))
            yield from _range(name, dimension.upper(), _most(scale.total))


def _range(name: str, parameter: str, value: Quantity | None) -> Iterator[str]:
    if value is not None:
        yield _assignment(name, parameter, _quoted(str(value)))


def _assignment(name: str, parameter: str, value: str) -> str:
    return f"{name}[{_single_quoted(parameter)}]={value}"


def _dimension_names(scale: Scale, taken: Collection[str]) -> list[str]:
    """Return a name for each dimension of a scale.

    From x, y, z ... the following letters that no other scale has; else the id, with a number from the second on.
    """
    count = min(scale.dimensions or 1, _MOST_DIMENSIONS)
    if scale.id in _DIMENSION_NAMES:
        following = _DIMENSION_NAMES[_DIMENSION_NAMES.index(scale.id) :]
        free = [name for name in following if name not in taken]
        if count <= len(free):
            return free[:count]
    return [scale.id, *(f"{scale.id}{number}" for number in range(2, count + 1))]


def _coupling(names: dict[str, str], coupling: Coupling) -> str:
    sender, receiver = coupling.sender, coupling.receiver
    ports = f"{_single_quoted(sender.port)} => {_single_quoted(receiver.port)}"
    if coupling.filters:
        filters = ", ".join(_single_quoted(_filter(applied)) for applied in coupling.filters)
        ends = f"{{{ports}}}, [{filters}]"
    else:
        ends = _single_quoted(sender.port) if sender.port == receiver.port else ports
    return f"{names[sender.instance]}.couple({names[receiver.instance]}, {ends})"


def _filter(applied: AppliedFilter) -> str:
    name = _filter_name(applied)
    return name if applied.factor is None else f"{name}_{number_text(applied.factor)}"


def _filter_name(applied: AppliedFilter) -> str:
    """Return the name of a filter that MUSCLE 2 has, else the filter's id."""
    definition = applied.definition
    return definition.builtin if definition.builtin in _FILTERS else definition.id


def _notes(model: Model, names: dict[str, str]) -> Iterator[str]:
    for instance in model.instances.values():
        if names[instance.id] != instance.id:
            yield f'"{instance.id}" is no name of a variable in Ruby: the script calls it {names[instance.id]}'
        yield from _instance_notes(instance)
    senders: set[str] = set()
    for coupling in model.couplings:
        if str(coupling.sender) in senders:
            yield f"MUSCLE 2 refuses a second coupling of the out port {coupling.sender}: put a mapper between"
        senders.add(str(coupling.sender))
        for applied in coupling.filters:
            name, class_ = _filter_name(applied), applied.definition.class_
            if name not in _FILTERS:
                its = f', such as "{class_}"' if class_ and ":" not in class_ else ""
                yield f'MUSCLE 2 has no filter "{name}": put the name of a Java class there{its}'
            if applied.params:
                yield f"filters of MUSCLE 2 have no parameters: those of {name} are left out"
        if model.carries_state(coupling):
            yield f"the coupling {coupling} carries state from run to run, which MUSCLE 2 does not know"
        if coupling.has_run_options:
            yield f"run: attributes of the coupling {coupling} are left out"
    for pool in model.pools:
        yield f"the pool {pool} is left out: MUSCLE 2 has none"


def _instance_notes(instance: Instance) -> Iterator[str]:
    if instance.is_multiplied:
        yield f"MUSCLE 2 has no copies: {instance.id} stands there once, not {instance.multiplicity} times"
    if instance.copy_params:
        yield f"parameters of single copies of {instance.id} are left out"
    if instance.until:
        yield f"{instance.id} decides by itself when to stop; MUSCLE 2 stops it after its total"
    if any(port.operator == "B" for port in instance.ports.values()):
        yield f"{instance.id} receives on operator B, which MUSCLE 2 does not tell from S"
    implementation = instance.definition.implementation
    if implementation is None:
        return
    if implementation.codes:
        yield f"the code inside the model of {instance.definition.id} is left out"
    run = implementation.run
    settings = {"arguments": run.args, "environment": run.env, "build command": run.build}
    if lost := [name for name, value in settings.items() if value]:
        yield f"{', '.join(lost)} of {instance.definition.id}: left out"
    if instance.kind in ("mapper", "terminal") and instance.definition.class_ is None and not implementation.path:
        yield f"{instance.id} has neither class nor program"


def _variables(instances: Iterable[str]) -> dict[str, str]:
    """Return for each instance the name of a Ruby variable: its id, as far as Ruby can have it."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for instance in instances:
        name = re.sub(r"\W", "_", instance, flags=re.ASCII)
        if not re.match(r"[A-Za-z_]", name):
            name = f"_{name}"
        while _RUBY_WORD.fullmatch(name) or name in taken:
            name += "_"
        taken.add(name)
        names[instance] = name
    return names


def _least(range_: Range | None) -> Quantity | None:
    if range_ is None:
        return None
    return range_.max if range_.min is None else range_.min


def _most(range_: Range | None) -> Quantity | None:
    if range_ is None:
        return None
    return range_.min if range_.max is None else range_.max


def number_text(number: float) -> str:
    """Return a number that reads back as the same one, without + in the exponent: 10, 0.5, 1e20, 1e-6."""
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return re.sub(r"e([+-])0*(\d)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", repr(number))


def _quoted(text: str) -> str:
    """Return a Ruby string in double quotes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("#", "\\#")
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def _single_quoted(text: str) -> str:
    """Return a Ruby string in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
