"""Open ports: E29 for those that are coupled in the model all the same, or that have no program to make or open
handles."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index, ports_of
from xmml.problems import Problem
from xmml.run_options import settings_of
from xmml.tree import RUN, Element


def is_open(port: Element) -> bool:
    """Whether a port is coupled by handles while the model runs."""
    return bool(settings_of(port).get("open", False))


def not_coupled(index: Index) -> Iterator[Problem]:
    """What is coupled in the model is not coupled by handles."""
    for coupling, sender, receiver in index.coupled:
        ends = [(attribute, end) for attribute, end in (("from", sender), ("to", receiver)) if end is not None]
        for attribute, (entry, port) in ends:
            definition = entry.definition
            if is_open(port) and definition is not None and _why_not(definition, port) is None:
                name = f"{entry.id}.{port.get('id')}"
                message = f'{name} is open to handles (run:open="yes"), and cannot be coupled too'
                yield coupling.problem("E29", message, "remove this coupling, or run:open from the port", attribute)
                break


def of_programs(index: Index) -> Iterator[Problem]:
    """Only the programs of submodels make and open handles; arrays in parts and states do not travel by them."""
    for definition in index.definition_elements:
        for port in filter(is_open, ports_of(definition)):
            problem = _why_not(definition, port)
            if problem is not None:
                yield port.problem("E29", problem, "remove run:open", "open", RUN)


def _why_not(definition: Element, port: Element) -> str | None:
    name = f'the port "{port.get("id")}"'
    if definition.name != "submodel":
        return f"{name} is of a {definition.name}, and only submodels make and open handles"
    if port.get("type") == "state":
        return f"{name} is for the state of the submodel, which no other instance sends or gets"
    if settings_of(port).get("decomp"):
        return f"{name} is spread over ranks (run:decomp), and handles are for whole messages"
    return None
