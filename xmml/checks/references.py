"""References: E05 for what names a definition, datatype, filter, instance or port that does not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from xmml.checks.index import Index, InstanceEntry, instance_kind, ports_of
from xmml.definitions import KINDS
from xmml.late_dataclass import dataclass
from xmml.problems import Problem
from xmml.tree import Element


def definitions_of_instances(index: Index) -> Iterator[Problem]:
    """The submodel, mapper or terminal of an instance is defined."""
    for kind in KINDS:
        for name, elements in _by_unknown_name(index, index.instance_elements, kind, index.definitions[kind], kind):
            others = [other for other in KINDS if name in index.definitions[other]]
            if others and instance_kind(elements[0]) is not None:
                help = f'"{name}" is a {others[0]}: write {others[0]}="{name}"'
            else:
                help = index.spelling.hint(name, index.definitions[kind], f"{kind}s")
            yield _told_once(kind, name, elements, kind, help)


def datatypes_of_ports(index: Index) -> Iterator[Problem]:
    """The datatypes of ports, and those that filters take and give, are defined."""
    ports = [port for definition in index.definition_elements for port in ports_of(definition)]
    told: set[str] = set()
    for elements, attribute in (
        (ports, "datatype"),
        (index.filter_elements, "datatype_in"),
        (index.filter_elements, "datatype_out"),
    ):
        for name, users in _by_unknown_name(index, elements, attribute, index.datatypes, "datatype"):
            if name not in told:
                told.add(name)
                help = index.spelling.hint(name, index.datatypes, "datatypes")
                yield _told_once("datatype", name, users, attribute, help)


def applied_filters(index: Index) -> Iterator[Problem]:
    """The filters that couplings apply are defined."""
    elements = [apply for coupling in index.couplings for apply in coupling.named("apply")]
    for name, users in _by_unknown_name(index, elements, "filter", index.filters, "filter"):
        yield _told_once("filter", name, users, "filter", index.spelling.hint(name, index.filters, "filters"))


def _by_unknown_name(
    index: Index, elements: Iterable[Element], attribute: str, known: Collection[str], what: str
) -> Iterator[tuple[str, list[Element]]]:
    """Yield every unknown name in an attribute, unless that is told elsewhere, with the elements that have it."""
    users: dict[str, list[Element]] = {}
    for element in elements:
        name = element.get(attribute)
        if name is not None and name not in known:
            users.setdefault(name, []).append(element)
    for name, found in users.items():
        if not index.is_told(what, name, known):
            yield name, found


def _told_once(what: str, name: str, users: Sequence[Element], attribute: str, help: str) -> Problem:
    """Return the one problem of all that name something which is not there."""
    return users[0].problem("E05", f'there is no {what} "{name}"', help, attribute, note=_others(users[1:]))


def _others(elements: Sequence[Element]) -> str:
    """Return where else something stands."""
    lines = list(dict.fromkeys(str(element.position.line) for element in elements))
    more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
    return f"also in line {', '.join(lines[:5])}{more}" if lines else ""


def ends_of_couplings(index: Index) -> Iterator[Problem]:
    """Both ends of a coupling name an instance and a port of it."""
    unknown: dict[str, list[_NamedEnd]] = {}
    for coupling, sender, receiver in index.coupled:
        if sender is not None and receiver is not None:
            continue
        for attribute, direction in (("from", "out"), ("to", "in")):
            text = coupling.get(attribute)
            if text is None or text.count(".") != 1:
                continue  # the schema tells
            name, _, port = text.partition(".")
            entry = index.instances.get(name)
            if entry is None:
                unknown.setdefault(name, []).append(_NamedEnd(coupling, attribute, direction, port))
            elif entry.definition is not None and port not in index.ports(entry.definition):
                yield from _unknown_port(index, entry, coupling, attribute, direction, port)
    for name, ends in unknown.items():
        if not index.is_told("instance", name, index.instances):
            yield _unknown_instance(index, name, ends)


@dataclass(frozen=True)
class _NamedEnd:
    """An end of a coupling that names an unknown instance."""

    coupling: Element
    attribute: str
    direction: str
    port: str


def _unknown_instance(index: Index, name: str, ends: Sequence[_NamedEnd]) -> Problem:
    """Return the one problem of all couplings that name an instance which is not there."""
    first = ends[0]
    note = _others([end.coupling for end in ends[1:]])
    message = f'there is no instance "{name}"'
    if name in index.misspelt_ids:
        entry, attribute = index.misspelt_ids[name]
        note = f"line {first.coupling.position.line} names it"
        message = f'the instance has no id, and there is no instance "{name}"'
        return entry.element.problem("E05", message, f'did you mean id="{name}"?', attribute, note=note)
    missing = index.definition_without_instance(name, first.port, first.direction)
    if missing is not None:
        made = f'<instance id="{name}" {missing.name}="{missing.get("id")}"/>'
        help = f'the {missing.name} "{missing.get("id")}" has a port "{first.port}": did you forget {made}?'
    else:
        help = _instance_help(index, name, first)
    return first.coupling.problem("E05", message, help, first.attribute, note=note)


def _unknown_port(
    index: Index, entry: InstanceEntry, coupling: Element, attribute: str, direction: str, port: str
) -> Iterator[Problem]:
    if entry.definition is None or index.is_port_told(entry.definition, port):
        return
    ports = ports_of(entry.definition)
    fitting = [id_ for each in ports if each.name == direction and (id_ := each.get("id"))]
    every = [id_ for each in ports if (id_ := each.get("id"))]
    hint = index.spelling.hint
    help = hint(port, fitting, f"{direction} ports") or hint(port, every, "ports")
    owner = entry.definition.get("id")
    what = f'"{entry.id}" ({entry.kind} {owner})' if owner != entry.id else f'"{entry.id}"'
    yield coupling.problem("E05", f'{what} has no port "{port}"', help, attribute)


def _instance_help(index: Index, name: str, end: _NamedEnd) -> str:
    is_definition = any(name in index.definitions[kind] for kind in KINDS)
    instances = is_definition and [
        entry.id for entry in index.entries if entry.element.get(entry.kind or "") == name and entry.id
    ]
    if instances:
        listing = ", ".join(instances)
        return (
            f'"{name}" is a definition; its instances are {listing}: write {end.attribute}="{instances[0]}.{end.port}"'
        )
    meant = index.meant_instances(name, end.port)
    if not meant or len(meant) > 3:
        return index.spelling.hint(name, index.instances, "instances")
    return "did you mean " + " or ".join(f'"{each}"' for each in meant) + "?"
