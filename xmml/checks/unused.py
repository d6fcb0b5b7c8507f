"""W03: ports and instances that nothing is coupled to, and definitions that nothing uses.

Where a name is misspelt, that is told, and what it was probably meant for is not told as unused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from xmml.checks.index import End, Index, InstanceEntry, ports_of
from xmml.checks.open_ports import is_open
from xmml.checks.pools import is_pool
from xmml.definitions import KINDS
from xmml.problems import Problem
from xmml.structure import misspelt
from xmml.tree import Element

#: If more ports than these are open, somebody is still writing, and no pairs are looked for among them.
MOST_PARTNERED = 200

#: Instance, index and port. White space around the whole is stripped before: within the pattern it would be tried at
#: every length, which takes the square of its length.
_END = re.compile(r"([^.\[]*)(?:\[[^\]]*\])?\.?(.*)", re.DOTALL)


class _Coupled:
    """What the couplings of a document lead to, as far as they can be understood."""

    def __init__(self, index: Index) -> None:
        self.ports: set[tuple[str, str]] = set()
        self.instances: set[str] = set()
        self.definitions: set[str | None] = set()
        self.is_unclear = False
        for coupling, sender, receiver in index.coupled:
            for attribute, direction, end in (("from", "out", sender), ("to", "in", receiver)):
                if end is not None and end[1].name == direction and is_pool(coupling):
                    self.ports.add((end[0].id or "", end[1].get("id") or ""))
                elif end is not None and end[1].name == direction:
                    self._port(end[0].id or "", end[1].get("id") or "", direction)
                else:
                    self._of(index, coupling, attribute, direction)
        for coupling in index.unknown_couplings:
            self._of(index, coupling, "from", "out")
            self._of(index, coupling, "to", "in")

    def _of(self, index: Index, coupling: Element, attribute: str, direction: str) -> None:
        text = coupling.get(attribute) or coupling.get(misspelt(coupling, attribute) or attribute)
        if text is None:
            self.is_unclear = True
            return
        match = _END.fullmatch(text.strip())
        instance, port = match.groups() if match else ("", "")
        entry = index.instances.get(instance)
        if entry is None:
            self.instances.update(index.meant_instances(instance, port) or index.instances)
            return
        element = index.ports(entry.definition).get(port) if entry.definition is not None else None
        if element is not None and element.name == direction:
            self._port(instance, port, direction)
        else:
            self.instances.add(instance)
            self.definitions.add(entry.definition.get("id") if entry.definition is not None else None)

    def _port(self, instance: str, port: str, direction: str) -> None:
        if direction == "in" and (instance, port) in self.ports:
            self.instances.add(instance)  # E12: one of the two is probably meant for another port
        self.ports.add((instance, port))


def unconnected(index: Index) -> Iterator[Problem]:
    """Every instance is coupled to something, and so are its ports, apart from those for its own state.

    A port that is coupled at another instance of its definition may stay open: instances at an edge have no neighbour.
    """
    coupled = _Coupled(index)
    if coupled.is_unclear:
        return
    reached = {instance for instance, _ in coupled.ports}
    elsewhere = {
        (entry.definition.get("id"), port)
        for instance, port in coupled.ports
        if (entry := index.instances[instance]).definition is not None
    }
    open_: list[End] = []
    nowhere: dict[Element, list[tuple[str, Element]]] = {}
    for entry in index.instances.values():
        definition = entry.definition
        if definition is None or entry.id is None or entry.id in coupled.instances or "." in entry.id:
            continue
        if entry.id not in reached and len(index.instances) > 1:
            if any(is_open(port) for port in index.ports(definition).values()):
                continue
            ports = [each for each in index.ports(definition).values() if each.get("type") != "state"]
            yield _isolated(entry, ports)
        elif definition.get("id") not in coupled.definitions:
            if definition not in nowhere:
                nowhere[definition] = _coupled_nowhere(index, definition, elsewhere)
            open_ += [(entry, port) for name, port in nowhere[definition] if (entry.id, name) not in coupled.ports]
    yield from _open_ports(open_)


def _coupled_nowhere(
    index: Index, definition: Element, elsewhere: Collection[tuple[str | None, str]]
) -> list[tuple[str, Element]]:
    """Return the ports of a definition, but for those of its own state, that no instance of it has coupled."""
    return [
        (name, port)
        for name, port in index.ports(definition).items()
        if port.get("type") != "state"
        and "." not in name
        and not is_open(port)
        and (definition.get("id"), name) not in elsewhere
    ]


def _open_ports(ends: list[End]) -> Iterator[Problem]:
    """Tell ports that are not coupled: an in port together with an out port that may have been meant for it."""
    free = [end for end in ends if end[1].name == "out"]
    rest: dict[str, tuple[InstanceEntry, list[Element]]] = {}
    for entry, port in ends:
        partner = _partner((entry, port), free) if port.name == "in" and len(ends) <= MOST_PARTNERED else None
        if partner is not None:
            free.remove(partner)
            sender, receiver = f"{partner[0].id}.{partner[1].get('id')}", f"{entry.id}.{port.get('id')}"
            message = f"nothing is coupled to {receiver} (in), and nobody gets what {sender} (out) sends"
            help = f'did you forget <coupling from="{sender}" to="{receiver}"/>? Else remove the ports'
            yield _at(entry, message, help)
        elif port.name == "in":
            rest.setdefault(entry.id or "", (entry, []))[1].append(port)
    for entry, port in free:
        rest.setdefault(entry.id or "", (entry, []))[1].append(port)
    for entry, ports in rest.values():
        yield _left_open(entry, ports)


def _partner(end: End, free: list[End]) -> End | None:
    """Return the open out port that was most probably meant for an open in port."""
    entry, port = end
    others = [each for each in free if each[0].id != entry.id]
    fitting = [
        each
        for each in others
        if each[1].get("datatype") == port.get("datatype") or None in (each[1].get("datatype"), port.get("datatype"))
    ]
    return next((each for each in fitting if each[1].get("id") == port.get("id")), fitting[0] if fitting else None)


def _isolated(entry: InstanceEntry, ports: list[Element]) -> Problem:
    names = ", ".join(f"{entry.id}.{port.get('id')} ({port.name})" for port in ports)
    help = f"couple its ports: {names}" if names else "remove it, or give it ports and couple them"
    return _at(entry, f'the instance "{entry.id}" is not coupled to anything', help)


def _left_open(entry: InstanceEntry, missing: list[Element]) -> Problem:
    names = [f"{port.get('id')} ({port.name})" for port in missing]
    listing = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    what = f"the port {listing} is" if len(names) == 1 else f"the ports {listing} are"
    first = missing[0]
    example = (
        f'<coupling from="..." to="{entry.id}.{first.get("id")}"/>'
        if first.name == "in"
        else f'<coupling from="{entry.id}.{first.get("id")}" to="..."/>'
    )
    does = "gets nothing there" if first.name == "in" else "sends to nobody there"
    return _at(entry, f'"{entry.id}" {does}: {what} not coupled', f"add {example}, or remove the port")


def _at(entry: InstanceEntry, message: str, help: str) -> Problem:
    attribute = "id" if entry.element.get("id") is not None else entry.kind
    return entry.element.problem("W03", message, help, attribute)


def unused_definitions(index: Index) -> Iterator[Problem]:
    """What the document defines is used; an included file may hold more than this model needs."""
    if not index.instance_elements:
        if not index.unknown_couplings and index.root.first("topology") is not None and index.definition_elements:
            topology = index.root.named("topology")[0]
            if not topology.children:
                help = 'add <instance id="..." submodel="..."/> for every part that is to run'
                yield topology.problem("W03", "the model has no instances: nothing would run", help)
        return
    forgotten = _forgotten(index)
    for kind in KINDS:
        used = {*_instantiated(index, kind), *forgotten}
        elements = [each for each in index.definition_elements if each.name == kind]
        yield from _unused(index, elements, used, f"no instance is made of the {kind}")
    applied = [apply for coupling in index.couplings for apply in coupling.named("apply")]
    filters = _meant(index, [apply.get("filter") for apply in applied], index.filters)
    yield from _unused(index, index.filter_elements, filters, "no coupling applies the filter")
    datatypes = _used_datatypes(index)
    yield from _unused(index, index.datatype_elements, datatypes, "no port or filter has the datatype")


def _forgotten(index: Index) -> set[str]:
    """Return the definitions of which couplings name an instance that is not there."""
    found = set()
    for coupling in index.couplings:
        for attribute, direction in (("from", "out"), ("to", "in")):
            name, _, port = (coupling.get(attribute) or "").partition(".")
            if name and name not in index.instances:
                definition = index.definition_without_instance(name, port, direction)
                found.update([definition.get("id") or ""] if definition is not None else [])
    return found


def _instantiated(index: Index, kind: str) -> Collection[str]:
    names: list[str | None] = []
    possible: set[str] = set()
    for element in index.instance_elements:
        if all(element.get(each) is None for each in KINDS):
            found = next((name for each in KINDS if (name := misspelt(element, each)) is not None), None)
            if found is not None:
                names.append(element.get(found))
            else:
                possible |= _with_ports_of(index, element.get("id") or "", kind)
        else:
            names += [name for each in KINDS if (name := element.get(each)) is not None]
    return {*possible, *_meant(index, names, index.definitions[kind])}


def _with_ports_of(index: Index, instance: str, kind: str) -> set[str]:
    """Return the definitions that an instance which names none may be of: they have the ports that are coupled."""
    ports = index.named_ports.get(instance, set())
    return {name for name, element in index.definitions[kind].items() if ports <= set(index.ports(element))}


def _used_datatypes(index: Index) -> Collection[str]:
    users = [port for definition in index.definition_elements for port in ports_of(definition)]
    names = [name for port in users if (name := port.get("datatype")) is not None]
    for element in index.filter_elements:
        names += [name for end in ("datatype_in", "datatype_out") if (name := element.get(end)) is not None]
    names += [name for element in index.datatype_elements if (name := element.get("extends")) is not None]
    return _meant(index, names, index.datatypes)


def _meant(index: Index, names: Collection[str | None], known: Mapping[str, Element]) -> Collection[str]:
    """Return which of the known names are meant: of a misspelt one those like it, of a missing one all."""
    meant: set[str] = set()
    for name in dict.fromkeys(names):
        if name is None:
            return set(known)
        meant.update([name] if name in known else index.spelling.close(name, known))
    return meant


def _unused(index: Index, elements: Collection[Element], used: Collection[str], message: str) -> Iterator[Problem]:
    for element in elements:
        name = element.get("id")
        if name is not None and name not in used and element.source is index.root.source:
            yield element.problem("W03", f'{message} "{name}"', "use it, or remove it", "id")
