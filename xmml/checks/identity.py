"""Ids: E04 for duplicates, W10 for ids that couplings cannot name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xmml.checks.index import Index, ports_of
from xmml.definitions import KINDS
from xmml.problems import Problem
from xmml.tree import Element


def duplicate_definitions(index: Index) -> Iterator[Problem]:
    """Two definitions of one kind, two datatypes or two filters must not share an id."""
    yield from _duplicates(index.datatype_elements, "datatype")
    yield from _duplicates(index.filter_elements, "filter")
    for kind in KINDS:
        yield from _duplicates([each for each in index.definition_elements if each.name == kind], kind)


def duplicate_instances(index: Index) -> Iterator[Problem]:
    """Two instances must not have the same effective id."""
    first: dict[str, Element] = {}
    for entry in index.entries:
        if entry.id is None:
            continue
        if entry.id not in first:
            first[entry.id] = entry.element
            continue
        own = entry.element.get("id") is not None
        attribute = "id" if own else entry.kind
        help = "give it another id" if own else f'an instance without id takes that of its {entry.kind}: write id="..."'
        yield entry.element.problem(
            "E04",
            f'there are two instances "{entry.id}"',
            help,
            attribute,
            note=_first_at(entry.element, first[entry.id]),
        )


def duplicate_ports(index: Index) -> Iterator[Problem]:
    """The ports of a definition have different ids, in and out ports together."""
    for definition in index.definition_elements:
        yield from _duplicates(ports_of(definition), "port", definition)


def duplicate_params(index: Index) -> Iterator[Problem]:
    """The parameters within one element have different ids."""
    owners = [*index.filter_elements, *index.definition_elements, *index.instance_elements]
    owners.extend(apply for coupling in index.couplings for apply in coupling.named("apply"))
    for owner in owners:
        yield from _duplicates(owner.named("param"), "parameter", owner)


def dotted_ids(index: Index) -> Iterator[Problem]:
    """An id with a dot is legal but cannot stand in `INSTANCE.PORT`; where a coupling tries to, that is told (E02)."""
    ends = [coupling.get(end) or "" for coupling in index.couplings for end in ("from", "to")]
    named = {text.rpartition(".")[0] for text in ends}
    for entry in index.entries:
        if entry.id is not None and "." in entry.id and entry.id not in named:
            attribute = "id" if entry.element.get("id") is not None else entry.kind
            yield entry.element.problem(
                "W10", f'no coupling can name the instance "{entry.id}"', "use an id without dots", attribute
            )
    for definition in index.definition_elements:
        for port in ports_of(definition):
            if "." in (port.get("id") or ""):
                yield port.problem(
                    "W10", f'no coupling can name the port "{port.get("id")}"', "use an id without dots", "id"
                )


def _duplicates(elements: Iterable[Element], what: str, owner: Element | None = None) -> Iterator[Problem]:
    first: dict[str, Element] = {}
    for element in elements:
        name = element.get("id")
        if name is None:
            continue
        if name in first:
            where = f' in "{owner.get("id")}"' if owner is not None and owner.get("id") else ""
            message = f'there are two {what}s "{name}"{where}'
            yield element.problem(
                "E04", message, "give one of them another id", "id", note=_first_at(element, first[name])
            )
        else:
            first[name] = element


def _first_at(element: Element, first: Element) -> str:
    place = first.position
    return (
        f"the first one is in line {place.line}" if first.source is element.source else f"the first one is at {place}"
    )
