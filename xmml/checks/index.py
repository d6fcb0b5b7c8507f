"""What a document defines and instantiates, by id, as elements: what the checks look things up in."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from xmml.definitions import KINDS
from xmml.document import Document
from xmml.late_dataclass import dataclass
from xmml.model import OPERATORS
from xmml.spelling import Spelling
from xmml.structure import misspelt, slot_of
from xmml.tree import Element


@dataclass(frozen=True)
class InstanceEntry:
    """An instance element with its effective id, and the definition it names if that exists."""

    id: str | None
    element: Element
    kind: str | None
    definition: Element | None


#: The instance and the port at one end of a coupling.
End = tuple[InstanceEntry, Element]


def instance_kind(element: Element) -> tuple[str, str] | None:
    """Return which kind of definition an instance element names, and its id; `None` if it is not exactly one."""
    named = [(kind, value) for kind in KINDS if (value := element.get(kind)) is not None]
    return named[0] if len(named) == 1 else None


def instance_id(element: Element) -> str | None:
    """Return the effective id of an instance element: its own, else that of what it instantiates."""
    own = element.get("id")
    named = [value for kind in KINDS if (value := element.get(kind)) is not None]
    return own if own is not None else named[0] if named else None


class Index:
    """The elements of a document by what they are; of equal ids the first counts."""

    def __init__(self, document: Document) -> None:
        self.root = document.root
        self.reach = document.reach
        self.folder = os.path.dirname(os.path.abspath(document.path))
        self.spelling = Spelling()
        definitions = document.root.first("definitions")
        topology = document.root.first("topology")
        self.definition_elements: list[Element] = definitions.named(*KINDS) if definitions else []
        self.datatype_elements = definitions.named("datatype") if definitions else []
        self.filter_elements = definitions.named("filter") if definitions else []
        self.datatypes = _by_id(self.datatype_elements)
        self.filters = _by_id(self.filter_elements)
        self.definitions: Mapping[str, Mapping[str, Element]] = {
            kind: _by_id([element for element in self.definition_elements if element.name == kind]) for kind in KINDS
        }
        self.instance_elements = topology.named("instance") if topology else []
        self.couplings = topology.named("coupling") if topology else []
        self.instances: dict[str, InstanceEntry] = {}
        self.entries: list[InstanceEntry] = []
        for element in self.instance_elements:
            named = instance_kind(element)
            definition = self.definitions[named[0]].get(named[1]) if named else None
            entry = InstanceEntry(instance_id(element), element, named[0] if named else None, definition)
            self.entries.append(entry)
            if entry.id is not None:
                self.instances.setdefault(entry.id, entry)
        unknown = [*_unknown_below(definitions), *_unknown_below(topology)]
        self.unknown_couplings = [
            each for each in _unknown_below(topology) if each.get("from") is not None or each.get("to") is not None
        ]
        self._lost = {name for each in unknown if (name := each.get("id")) is not None}
        self._doubtful = _doubtful_kinds(
            [*self.datatype_elements, *self.filter_elements, *self.definition_elements], self.entries
        )

        self._ports: dict[Element, Mapping[str, Element]] = {}

    def ports(self, definition: Element) -> Mapping[str, Element]:
        """Return the `in` and `out` elements of a definition by id; of equal ids the first."""
        found = self._ports.get(definition)
        if found is None:
            found = self._ports[definition] = _by_id(ports_of(definition))
        return found

    def end(self, coupling: Element, attribute: str) -> End | None:
        """Return instance and port element at one end of a coupling, or `None` if there is no such port."""
        instance, dot, port = (coupling.get(attribute) or "").partition(".")
        entry = self.instances.get(instance)
        if not dot or entry is None or entry.definition is None:
            return None
        element = self.ports(entry.definition).get(port)
        return None if element is None else (entry, element)

    @cached_property
    def coupled(self) -> Sequence[tuple[Element, End | None, End | None]]:
        """Every coupling with its two ends."""
        return [(coupling, self.end(coupling, "from"), self.end(coupling, "to")) for coupling in self.couplings]

    def is_told(self, kind: str, name: str, known: Collection[str]) -> bool:
        """Say whether it follows from another problem that there is no `name` of a kind.

        Its element may be misspelt, have no id, or have that of another one; the last two only if `name` is not just
        a misspelling of one that is there once.
        """
        if name in self._lost:
            return True
        duplicates = self._doubtful.get(kind)
        if duplicates is None:
            return False
        close = self.spelling.close(name, known)
        return not self.spelling.is_tired and (not close or not duplicates.isdisjoint(close))

    @cached_property
    def named_ports(self) -> Mapping[str, set[str]]:
        """The ports that couplings name, by instance, whether they exist or not."""
        named: dict[str, set[str]] = {}
        for coupling in self.couplings:
            for end in ("from", "to"):
                instance, _, port = (coupling.get(end) or "").partition(".")
                named.setdefault(instance, set()).add(port)
        return named

    @cached_property
    def misspelt_ids(self) -> Mapping[str, tuple[InstanceEntry, str]]:
        """The instances of which the attribute `id` is misspelt, by the id that they were to have."""
        found = {}
        for entry in self.entries:
            attribute = misspelt(entry.element, "id") if entry.element.get("id") is None else None
            if attribute is not None:
                found[entry.element.get(attribute) or ""] = entry, attribute
        return found

    def has_port(self, instance: str, port: str) -> bool:
        """Say whether an instance has a port of that name, in whatever direction."""
        definition = self.instances[instance].definition
        return definition is not None and port in self.ports(definition)

    def meant_instances(self, name: str, port: str) -> list[str]:
        """Return the instances that a coupling may mean by an unknown name: of similar name, and with the port."""
        if name in self.misspelt_ids and (own := self.misspelt_ids[name][0].id) is not None:
            return [own]
        close = self.spelling.close(name, self.instances)
        fitting = [each for each in close if self.has_port(each, port)]
        if not fitting and not self.spelling.is_tired:
            fitting = [each for each in self.instances if self.has_port(each, port)]
        return fitting or close

    @cached_property
    def uninstantiated(self) -> Sequence[Element]:
        """The definitions that no instance is made of."""
        used = {id(entry.definition) for entry in self.entries}
        return [element for element in self.definition_elements if id(element) not in used]

    def definition_without_instance(self, name: str, port: str, direction: str) -> Element | None:
        """Return the definition of which a coupling probably means an instance `name` that was forgotten.

        It is one that nothing instantiates, has the port, and no instance with a similar name has it.
        """
        for similar in self.spelling.close(name, self.instances):
            definition = self.instances[similar].definition
            if definition is None or port in self.ports(definition):
                return None
        for definition in self.uninstantiated:
            found = self.ports(definition).get(port)
            if definition.get("id") != name and found is not None:
                return definition if found.name == direction else None
        return None

    def is_port_told(self, definition: Element, port: str) -> bool:
        """Say whether it follows from another problem that a definition has no such port."""
        groups = definition.named("ports")
        strays = [each for group in groups for each in group.children if slot_of("ports", each.name) is None]
        strays += [each for each in definition.children if slot_of(definition.name, each.name) is None]
        if any(each.get("id") == port for stray in strays for each in stray.walk()):
            return True
        ports = ports_of(definition)
        known = [name for each in ports if (name := each.get("id")) is not None]
        doubtful = not groups or len(set(known)) < len(ports)
        return doubtful and not self.spelling.close(port, known)

    def direction_is_told(self, end: End) -> bool:
        """Say whether another check tells that a port should perhaps have the other direction."""
        entry, port = end
        if entry.kind == "terminal" and entry.definition is not None:
            wanted = {"source": "out", "sink": "in"}.get(entry.definition.get("type") or "")
            return wanted is not None and port.name != wanted
        operator = port.get("operator") or ""
        return entry.kind == "submodel" and OPERATORS.get(operator, port.name) != port.name


def parameter(entry: InstanceEntry, name: str) -> Element | None:
    """Return the element of a parameter of an instance or else of its definition; `None` if neither has it."""
    for owner in (entry.element, entry.definition):
        for param in owner.named("param") if owner is not None else []:
            if param.get("id") == name:
                return param
    return None


def _unknown_below(parent: Element | None) -> list[Element]:
    return [] if parent is None else [each for each in parent.children if slot_of(parent.name, each.name) is None]


def _doubtful_kinds(definitions: list[Element], entries: list[InstanceEntry]) -> dict[str, set[str]]:
    """Return the kinds of which an element has no id, or that of another one; each with the ids there are twice."""
    doubtful: dict[str, set[str]] = {}
    seen: set[tuple[str, str | None]] = set()
    for kind, name in [*((each.name, each.get("id")) for each in definitions), *(("instance", e.id) for e in entries)]:
        if name is None or (kind, name) in seen:
            doubtful.setdefault(kind, set()).update([name] if name is not None else [])
        seen.add((kind, name))
    return doubtful


def ports_of(definition: Element) -> list[Element]:
    """Return the `in` and `out` elements of a definition."""
    return [port for group in definition.named("ports") for port in group.named("in", "out")]


def _by_id(elements: list[Element]) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in elements:
        if (name := element.get("id")) is not None:
            found.setdefault(name, element)
    return found
