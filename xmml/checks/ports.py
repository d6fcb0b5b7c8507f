"""Ports: E07 and E09 for their operators, E10 and E11 for how many mappers and terminals have."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index, ports_of
from xmml.model import OPERATORS
from xmml.problems import Problem
from xmml.tree import Element

_RECEIVING = ", ".join(name for name, direction in OPERATORS.items() if direction == "in")
_SENDING = ", ".join(name for name, direction in OPERATORS.items() if direction == "out")


def operator_fits_direction(index: Index) -> Iterator[Problem]:
    """In ports belong to finit, S or B, out ports to Oi or Of."""
    for definition in index.definition_elements:
        if definition.name != "submodel":
            continue
        for port in ports_of(definition):
            operator = port.get("operator") or ""
            if operator in OPERATORS and OPERATORS[operator] != port.name:
                does, other = ("sends", "out") if OPERATORS[operator] == "out" else ("receives", "in")
                fitting = _RECEIVING if port.name == "in" else _SENDING
                yield port.problem(
                    "E07",
                    f'the {port.name} port "{port.get("id")}" has the operator {operator}, which {does}',
                    f"write <{other} ...>, or an operator for an {port.name} port: {fitting}",
                    "operator",
                )


def no_operator_outside_submodels(index: Index) -> Iterator[Problem]:
    """Ports of mappers and terminals belong to no operator."""
    for definition in index.definition_elements:
        if definition.name != "submodel":
            for port in ports_of(definition):
                if port.get("operator") is not None:
                    message = f'the port "{port.get("id")}" of a {definition.name} has an operator'
                    yield port.problem("E09", message, "remove it: only submodels have operators", "operator")


def ports_of_mappers(index: Index) -> Iterator[Problem]:
    """fan-in: many in, one out; fan-out: one in, many out; fan-in-out: many of both."""
    for mapper in index.definition_elements:
        type_ = mapper.get("type")
        if mapper.name != "mapper" or type_ not in ("fan-in", "fan-out", "fan-in-out") or mapper.first("ports") is None:
            continue
        ins, outs = _count(mapper.named("ports"), "in"), _count(mapper.named("ports"), "out")
        wrong = []
        if ins < 1 or (type_ == "fan-out" and ins != 1):
            wrong.append(f"{'one in port' if type_ == 'fan-out' else 'at least one in port'} but has {ins or 'none'}")
        if outs < 1 or (type_ == "fan-in" and outs != 1):
            wrong.append(f"{'one out port' if type_ == 'fan-in' else 'at least one out port'} but has {outs or 'none'}")
        if wrong:
            help = (
                "change its ports, or its type: fan-in (n in, 1 out), fan-out (1 in, n out), fan-in-out (n in, m out)"
            )
            yield mapper.problem(
                "E10", f'the {type_} mapper "{mapper.get("id")}" needs {" and ".join(wrong)}', help, "type"
            )


def ports_of_terminals(index: Index) -> Iterator[Problem]:
    """A source has exactly one out port, a sink exactly one in port."""
    for terminal in index.definition_elements:
        type_ = terminal.get("type")
        if terminal.name != "terminal" or type_ not in ("source", "sink") or terminal.first("ports") is None:
            continue
        ports = ports_of(terminal)
        wanted = "out" if type_ == "source" else "in"
        if [port.name for port in ports] != [wanted]:
            has = ", ".join(f'{port.name} "{port.get("id")}"' for port in ports) or "none"
            message = f'the {type_} "{terminal.get("id")}" must have exactly one port, an {wanted} port; it has: {has}'
            does = "sends" if wanted == "out" else "receives"
            help = f'a {type_} {does}: give it <{wanted} id="..."/> and nothing else'
            yield terminal.problem("E11", message, help, "type")


def _count(groups: list[Element], name: str) -> int:
    return sum(len(group.named(name)) for group in groups)
