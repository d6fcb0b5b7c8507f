"""References: E05 for what names a definition, datatype, filter, instance or port that does not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xmml.checks.index import Index, instance_kind, ports_of
from xmml.definitions import KINDS
from xmml.problems import Problem
from xmml.tree import Element


def definitions_of_instances(index: Index) -> Iterator[Problem]:
    """The submodel, mapper or terminal of an instance is defined."""
    for element in index.instance_elements:
        for kind in KINDS:
            name = element.get(kind)
            if name is None or name in index.definitions[kind] or index.is_told(kind, name, index.definitions[kind]):
                continue
            others = [other for other in KINDS if name in index.definitions[other]]
            if others and instance_kind(element) is not None:
                help = f'"{name}" is a {others[0]}: write {others[0]}="{name}"'
            else:
                help = index.spelling.hint(name, index.definitions[kind], f"{kind}s")
            yield element.problem("E05", f'there is no {kind} "{name}"', help, kind)


def datatypes_of_ports(index: Index) -> Iterator[Problem]:
    """The datatype of a port is defined."""
    for definition in index.definition_elements:
        for port in ports_of(definition):
            yield from _unknown(index, port, "datatype", index.datatypes, "datatype")


def datatypes_of_filters(index: Index) -> Iterator[Problem]:
    """The datatypes that a filter takes and gives are defined."""
    for element in index.filter_elements:
        yield from _unknown(index, element, "datatype_in", index.datatypes, "datatype")
        yield from _unknown(index, element, "datatype_out", index.datatypes, "datatype")


def applied_filters(index: Index) -> Iterator[Problem]:
    """The filters that couplings apply are defined."""
    for coupling in index.couplings:
        for apply in coupling.named("apply"):
            yield from _unknown(index, apply, "filter", index.filters, "filter")


def ends_of_couplings(index: Index) -> Iterator[Problem]:
    """Both ends of a coupling name an instance and a port of it."""
    told: set[str] = set()
    for coupling in index.couplings:
        for attribute, direction in (("from", "out"), ("to", "in")):
            text = coupling.get(attribute)
            if text is None or text.count(".") != 1:
                continue  # the schema tells
            name, _, port = text.partition(".")
            entry = index.instances.get(name)
            if entry is None:
                if index.is_told("instance", name, index.instances):
                    continue
                missing = index.definition_without_instance(name, port, direction)
                if missing is None:
                    help = _instance_help(index, name, attribute, port)
                elif name in told:
                    continue
                else:
                    told.add(name)
                    made = f'<instance id="{name}" {missing.name}="{missing.get("id")}"/>'
                    help = f'the {missing.name} "{missing.get("id")}" has a port "{port}": did you forget {made}?'
                yield coupling.problem("E05", f'there is no instance "{name}"', help, attribute)
            elif entry.definition is not None and port not in index.ports(entry.definition):
                ports = ports_of(entry.definition)
                if not index.is_port_told(entry.definition, port):
                    fitting = [id_ for each in ports if each.name == direction and (id_ := each.get("id"))]
                    every = [id_ for each in ports if (id_ := each.get("id"))]
                    help = index.spelling.hint(port, fitting, f"{direction} ports") or index.spelling.hint(
                        port, every, "ports"
                    )
                    owner = entry.definition.get("id")
                    what = f'"{name}" ({entry.kind} {owner})' if owner != name else f'"{name}"'
                    yield coupling.problem("E05", f'{what} has no port "{port}"', help, attribute)


def _instance_help(index: Index, name: str, attribute: str, port: str) -> str:
    is_definition = any(name in index.definitions[kind] for kind in KINDS)
    instances = is_definition and [
        entry.id for entry in index.entries if entry.element.get(entry.kind or "") == name and entry.id
    ]
    if instances:
        listing = ", ".join(instances)
        return f'"{name}" is a definition; its instances are {listing}: write {attribute}="{instances[0]}.{port}"'
    return index.spelling.hint(name, index.instances, "instances")


def _unknown(index: Index, element: Element, attribute: str, known: Collection[str], what: str) -> Iterator[Problem]:
    name = element.get(attribute)
    if name is not None and name not in known and not index.is_told(what, name, known):
        yield element.problem(
            "E05", f'there is no {what} "{name}"', index.spelling.hint(name, known, f"{what}s"), attribute
        )
