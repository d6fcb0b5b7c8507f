"""What a document defines and instantiates, by id, as elements: what the checks look things up in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xmml.definitions import KINDS
from xmml.document import Document
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

        self._ports: dict[Element, dict[str, Element]] = {}

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


def ports_of(definition: Element) -> list[Element]:
    """Return the `in` and `out` elements of a definition."""
    return [port for group in definition.named("ports") for port in group.named("in", "out")]


def _by_id(elements: list[Element]) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in elements:
        if (name := element.get("id")) is not None:
            found.setdefault(name, element)
    return found
