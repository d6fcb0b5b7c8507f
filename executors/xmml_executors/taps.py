"""Taps: programs that join a run of which the model knows nothing, and are shown what passes out ports of instances.

Nothing of the run depends on a tap, which misses what passes while it is behind by its limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from xmml_planner import ConduitSpec, Plan, PlannedInstance, PortSpec
from xmml_planner.execution_plan import PoolSpec
from xmml_planner.plain_values import plain_value

from xmml.problems import did_you_mean
from xmml.selectors import SelectorError, compiled, schema
from xmml_executors.queries import AskTap

#: The port of a tap.
PORT = "objects"

#: An out port: its instance and its name.
Port = tuple[str, str]


class TapRefused(RuntimeError):
    """There is nothing that a tap could be shown as it was asked for; the text says why."""


def tap_spec(plan: Plan, name: str, query: AskTap) -> dict[str, Any]:
    """Return what the coordinator must know of a tap: the native `InstanceSpec` as plain values.

    Raises:
        TapRefused: no port fits, or none that is shown to taps, or the selector cannot be read.
    """
    coupled = _coupled_ports(plan)
    conduits = [_conduit(coupled[each], name, query) for each in _ports(plan, coupled, query.ports)]
    for attributes in {each.pool.attributes for each in conduits if each.pool is not None and query.select}:
        _check_selector(query.select, attributes)
    return {
        "name": name,
        "kind": "terminal",
        "index": 0,
        "count": 1,
        "check_order": False,
        "steps": 0,
        "until": True,
        "delta_s": 0.0,
        "total_s": 0.0,
        "params": {},
        "ports": [plain_value(PortSpec(PORT, "in", None))],
        "conduits": [plain_value(each) for each in conduits],
    }


def _coupled_ports(plan: Plan) -> dict[Port, list[ConduitSpec]]:
    """Return the conduits that begin at each out port."""
    found: dict[Port, list[ConduitSpec]] = {}
    for conduit in plan.conduits:
        found.setdefault((conduit.sender, conduit.sender_port), []).append(conduit)
    return found


def _ports(plan: Plan, coupled: Mapping[Port, Sequence[ConduitSpec]], patterns: Sequence[str]) -> list[Port]:
    """Return the out ports that patterns name and that are shown to taps."""
    known = dict(_out_ports(plan, coupled))
    found: dict[Port, None] = {}
    for pattern in patterns:
        fitting = [each for each in known if _fits(pattern, *each)]
        shown = [each for each in fitting if not known[each]]
        if not fitting and any(pattern in (name, name.partition("[")[0]) for name, _ in known):
            ports = f"{pattern.partition('[')[0]}.*"
            raise TapRefused(f'"{pattern}" is an instance, and ports are shown; did you mean "{ports}"?')
        if not fitting:
            names = {f"{instance.partition('[')[0]}.{port}" for instance, port in known}
            raise TapRefused(f'no out port is called "{pattern}"; {did_you_mean(pattern, names, "out ports")}')
        if not shown:
            raise TapRefused(f"{'.'.join(fitting[0])} cannot be tapped: {known[fitting[0]]}")
        found |= dict.fromkeys(shown)
    return list(found)


def _fits(pattern: str, instance: str, port: str) -> bool:
    """Whether a pattern names a port of an instance, or of all copies of an element."""
    return pattern == f"{instance}.{port}" or fnmatchcase(f"{instance.partition('[')[0]}.{port}", pattern)


def _out_ports(plan: Plan, coupled: Mapping[Port, Sequence[ConduitSpec]]) -> Iterator[tuple[Port, str]]:
    """Yield the out ports, each with why it cannot be tapped; empty: it can."""
    for instance in plan.instances:
        for port in instance.ports:
            if port.direction == "out":
                place = (instance.name, port.name)
                yield place, _why_not(instance, port, next(iter(coupled.get(place, ())), None))


def _why_not(instance: PlannedInstance, port: PortSpec, conduit: ConduitSpec | None) -> str:
    if port.open:
        return "handles say where it leads (run:open)"
    if conduit is None:
        return "it is not coupled" if instance.rank_of is None else "rank 0 sends for all ranks"
    return "it sends parts of arrays (run:decomp)" if port.decomposition else ""


def _conduit(beside: Sequence[ConduitSpec], tap: str, query: AskTap) -> ConduitSpec:
    """Return the conduit from a port to the tap; its number is given by the coordinator.

    Args:
        beside: the other conduits from this port.
    """
    first = beside[0]
    attributes = next((each.pool.attributes for each in beside if each.pool is not None), "")
    return ConduitSpec(
        id=0,
        name=f"{first.sender}.{first.sender_port} -> {tap}.{PORT}",
        sender=first.sender,
        sender_port=first.sender_port,
        receiver=tap,
        receiver_port=PORT,
        capacity=0,
        byte_budget=query.limit_bytes,
        protect=first.protect,
        pool=PoolSpec(attributes, query.select, may_lose=True, is_tap=True),
    )


def _check_selector(select: str, attributes: str) -> None:
    try:
        compiled(select, schema(attributes), {})
    except SelectorError as error:
        marked = f"{select}\n{' ' * error.first}{'^' * max(1, error.end - error.first)}"
        known = attributes or "none but those of the system, such as sys.t"
        raise TapRefused(f"the selector cannot be read: {error}\n{marked}\nattributes: {known}") from None


def environment_of_tap(name: str, joining: Mapping[str, str], relay: str | None) -> dict[str, str]:
    """Return the variables by which a program joins as a tap.

    Args:
        joining: what processes of the run get.
        relay: where processes of this machine find their relay, if there is one.
    """
    own = {key: value for key, value in joining.items() if key.startswith("XMML_")}
    return {**own, "XMML_INSTANCE": name, **({} if relay is None else {"XMML_RELAY": relay})}
