"""Couplings: E06 direction, E08 operators, E12 several senders, E19 and E25 copies."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import End, Index, InstanceEntry
from xmml.checks.pools import is_pool, lacks_kind
from xmml.definitions import positive_integer
from xmml.problems import Problem
from xmml.structure import misspelt
from xmml.tree import Element

_OPERATORS = {
    "in": 'operator="finit" (once, before the first step), or "S" or "B" (in every step)',
    "out": 'operator="Oi" (in every step), or "Of" (once, after the last step)',
}


def of_messages(index: Index) -> Iterator[tuple[Element, End | None, End | None]]:
    """Yield the couplings that carry messages, with their two ends: objects of pools may come at any time, from any
    number of writers."""
    return (each for each in index.coupled if not is_pool(each[0]))


def direction(index: Index) -> Iterator[Problem]:
    """A coupling runs from an out port to an in port."""
    for coupling, sender, receiver in index.coupled:
        if sender is not None and receiver is not None and (sender[1].name, receiver[1].name) == ("out", "in"):
            continue
        sender = None if sender is not None and index.direction_is_told(sender) else sender
        receiver = None if receiver is not None and index.direction_is_told(receiver) else receiver
        from_in = sender is not None and sender[1].name == "in"
        to_out = receiver is not None and receiver[1].name == "out"
        from_, to = coupling.get("from"), coupling.get("to")
        if sender is not None and receiver is not None and from_in and to_out:
            yield coupling.problem(
                "E06",
                "this coupling runs from an in port to an out port",
                f'swap the two ends: from="{to}" to="{from_}"',
                "from",
                note=_what_it_does(from_, sender),
                whole=True,
            )
            continue
        if sender is not None and from_in:
            help = _fitting(sender, "out")
            note = _what_it_does(from_, sender)
            yield coupling.problem("E06", "this coupling begins at an in port", help, "from", note=note, whole=True)
        if receiver is not None and to_out:
            help = _fitting(receiver, "in")
            note = _what_it_does(to, receiver)
            yield coupling.problem("E06", "this coupling ends at an out port", help, "to", note=note, whole=True)


def operators_of_coupled_ports(index: Index) -> Iterator[Problem]:
    """A coupled port of a submodel says in which operator it sends or receives."""
    told: set[int] = set()
    for coupling, sender, receiver in of_messages(index):
        if lacks_kind(coupling, sender, receiver):
            continue
        line = coupling.position.line
        could_be_pool = _lacks_operator(sender) and _lacks_operator(receiver)
        as_pool = f'; or write run:kind="pool" on the coupling (line {line}), whose ports need no operator'
        for end in (sender, receiver):
            if end is None or end[0].kind != "submodel" or end[1].get("operator") is not None or id(end[1]) in told:
                continue
            told.add(id(end[1]))
            port = end[1]
            message = f'the port "{port.get("id")}" is coupled (line {line}) but belongs to no operator'
            similar = misspelt(port, "operator")
            if similar is not None:
                help = f'it has "{similar}": did you mean "operator"?'
                yield port.problem("E08", message, help, similar)
            else:
                help = f"add {_OPERATORS[port.name]}{as_pool if could_be_pool else ''}"
                yield port.problem("E08", message, help, "id")


def _lacks_operator(end: End | None) -> bool:
    """Whether a port of a submodel has no operator, nor an attribute that may be a misspelt one."""
    if end is None or end[0].kind != "submodel" or end[1].get("operator") is not None:
        return False
    return misspelt(end[1], "operator") is None


def one_sender_per_in_port(index: Index) -> Iterator[Problem]:
    """Messages of several couplings into one port would have no order."""
    first: dict[tuple[str, str], Element] = {}
    taken: set[str | None] = set()
    for coupling, _, receiver in of_messages(index):
        if receiver is None or receiver[1].name != "in" or index.direction_is_told(receiver):
            continue
        entry, port = receiver
        key = (entry.id or "", port.get("id") or "")
        if key not in first:
            first[key] = coupling
            continue
        line = first[key].position.line
        if first[key].get("from") == coupling.get("from"):
            message = f"a second coupling leads from {coupling.get('from')} to {coupling.get('to')}"
            note = f"the first one is in line {line}"
            yield coupling.problem("E12", message, "remove one of the two", "to", note=note)
            continue
        taken = taken or {each.get("to") for each in index.couplings}
        free = [each.get("id") for each in _ports(entry, "in") if f"{entry.id}.{each.get('id')}" not in taken]
        help = "join them with a fan-in mapper before it"
        if free:
            help += f", or use a free in port of {entry.id}: {', '.join(map(str, free))}"
        note = f"{first[key].get('from')} already sends to it (line {line})"
        yield coupling.problem("E12", f"a second coupling leads into {coupling.get('to')}", help, "to", note=note)


def copies_are_addressed(index: Index) -> Iterator[Problem]:
    """A multiplied instance is coupled to mappers only: they can address its copies."""
    if all(element.get("multiplicity") is None for element in index.instance_elements):
        return
    for coupling, sender, receiver in of_messages(index):
        if sender is None or receiver is None:
            continue
        for mine, other, attribute in ((sender, receiver, "from"), (receiver, sender, "to")):
            copies = (mine[0].element.get("multiplicity") or "1").strip()
            multiplied = copies == "dynamic" or (positive_integer(copies) or 1) > 1
            if mine[0].kind == "submodel" and multiplied and other[0].kind != "mapper":
                what = f"{copies} copies" if copies != "dynamic" else "a dynamic number of copies"
                classes = "gather, concatenate" if attribute == "from" else "scatter, duplicate"
                help = (
                    f"put a mapper between them, built in ({classes}) or your own: it addresses the copies one by one"
                )
                message = f'"{mine[0].id}" has {what}, but is coupled to "{other[0].id}", which is a {other[0].kind}'
                yield coupling.problem("E19", message, help, attribute)
                break


def one_number_of_copies(index: Index) -> Iterator[Problem]:
    """All couplings of a port lead to the same number of copies: else an index would not say which one is meant."""
    if all(element.get("multiplicity") is None for element in index.instance_elements):
        return
    first: dict[tuple[str | None, str | None], tuple[str, str, Element]] = {}
    for coupling, sender, receiver in of_messages(index):
        if sender is None or receiver is None:
            continue
        for mine, other, attribute in ((sender, receiver, "to"), (receiver, sender, "from")):
            copies = _copies(other[0])
            key = (mine[0].id, mine[1].get("id"))
            before, name, element = first.setdefault(key, (copies, other[0].id or "", coupling))
            if before != copies and other[0].kind == mine[0].kind == "submodel":
                continue  # E19 tells that copies need a mapper
            if before != copies:
                message = f"{key[0]}.{key[1]} leads to {_number(copies)} here, but to {_number(before)} of {name}"
                note = f"that is in line {element.position.line}"
                help = f'give "{key[0]}" one port for each of them'
                yield coupling.problem("E25", message, help, attribute, note=note)


def _copies(entry: InstanceEntry) -> str:
    copies = (entry.element.get("multiplicity") or "1").strip()
    return "dynamic" if copies == "dynamic" else str(positive_integer(copies) or 1)


def _number(copies: str) -> str:
    return {"1": "a single instance", "dynamic": "a dynamic number of copies"}.get(copies, f"{copies} copies")


def _what_it_does(text: str | None, end: End) -> str:
    entry, port = end
    operator = port.get("operator")
    does = "receives" if port.name == "in" else "sends"
    return f"{text} {does}" + (f" (operator {operator})" if operator else f" ({entry.kind} {port.name} port)")


def _fitting(end: End, name: str) -> str:
    entry, _ = end
    ports = [str(port.get("id")) for port in _ports(entry, name)]
    return f"the {name} ports of {entry.id} are: {', '.join(ports)}" if ports else f"{entry.id} has no {name} port"


def _ports(entry: InstanceEntry, name: str) -> list[Element]:
    return [port for group in entry.definition.named("ports") for port in group.named(name)] if entry.definition else []
