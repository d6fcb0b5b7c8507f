"""What ``Instance.alone`` needs: the specification of an instance without a run, and the messages that it receives."""

from __future__ import annotations

import os

from xmml_native._native import Message, Object
from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

_OPERATORS = {"finit": "in", "Oi": "out", "S": "in", "B": "in", "Of": "out"}
_ALIASES = {"f_init": "finit", "O_i": "Oi", "O_f": "Of"}


def spec_from_ports(
    name: str,
    ports: Mapping[str, str],
    *,
    pools: Collection[str] = (),
    delta: float | None,
    steps: int | None,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the specification of a program with ``ports``: by name the operator; "in" and "out" for a mapper, and for
    ``pools``."""
    declared = []
    for port, place in ports.items():
        operator = _ALIASES.get(place, place)
        direction = _OPERATORS.get(operator, operator)
        if direction not in ("in", "out"):
            raise Error(
                f'port "{port}": "{place}" is no operator; use {", ".join(_OPERATORS)}, or in and out for a mapper'
            )
        declared.append(_port(port, direction, operator if operator in _OPERATORS else None))
    operators = [port["operator"] for port in declared if port["name"] not in pools]
    is_mapper = bool(operators) and not any(operators)
    if not is_mapper and None in operators:
        raise Error('either every port has an operator (a submodel) or every port is "in" or "out" (a mapper)')
    kind = ("terminal" if len(declared) == 1 else "mapper") if is_mapper else "submodel"
    return _spec(name, kind, declared, 1.0 if delta is None else delta, 1 if steps is None else steps, params)


def spec_from_model(
    path: str | os.PathLike[str],
    name: str | None,
    *,
    delta: float | None,
    steps: int | None,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the specification of the instance ``name`` (for a copy ``c[3]``) of the model at ``path``."""
    from xmml.check import check

    # The program that calls this names the model, and runs already.
    model = check(path, allow_outside=True).model_or_raise()
    if name is None and len(model.instances) == 1:
        (name,) = model.instances
    base, _, copy = (name or "").partition("[")
    instance = model.instances.get(base)
    if instance is None:
        what = f'no instance "{name}"' if name else "several instances, so give the name of one"
        raise Error(f"{os.fspath(path)} has {what}: {', '.join(model.instances)}")
    index = int(copy.rstrip("]") or 0)
    declared = instance.definition.ports.values()
    ports = [{**_port(port.id, port.direction, port.operator), "open": port.open} for port in declared]
    values = {**instance.params, **instance.copy_params.get(index, {}), **params}
    delta = delta if delta is not None else instance.delta_s or 0.0
    spec = _spec(name or base, instance.kind, ports, delta, instance.steps if steps is None else steps, values)
    count = instance.multiplicity if isinstance(instance.multiplicity, int) else 1
    spec.update(index=index, count=count, until=instance.until, check_order=instance.check_order)
    spec["scales"] = [scale.in_base_units() for scale in instance.scales]
    if steps is None and instance.total_s is not None:
        spec["total_s"] = instance.total_s
    for pool in model.pools:
        for end in (pool.sender, pool.receiver):
            if end.instance == base:
                _find(spec, end.port)["attributes"] = pool.attributes
    if count == 1:
        for coupling in model.couplings:
            for here, there in ((coupling.sender, coupling.receiver), (coupling.receiver, coupling.sender)):
                multiplicity = model.instances[there.instance].multiplicity
                if here.instance == base and isinstance(multiplicity, int) and multiplicity > 1:
                    _find(spec, here.port)["copies"] = multiplicity
    return spec


def _spec(
    name: str, kind: str, ports: list[dict[str, Any]], delta: float, steps: int, params: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "index": 0,
        "count": 1,
        "check_order": True,
        "steps": steps,
        "until": False,
        "delta_s": float(delta),
        "total_s": float(delta) * steps,
        "params": {key: _text(value) for key, value in params.items()},
        "ports": ports,
        "conduits": [],
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _port(name: str, direction: str, operator: str | None) -> dict[str, Any]:
    return {"name": name, "direction": direction, "operator": operator, "copies": 0}


def _find(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    for port in spec["ports"]:
        if port["name"] == name:
            found: dict[str, Any] = port
            return found
    known = ", ".join(port["name"] for port in spec["ports"]) or "none"
    raise Error(f'{spec["name"]} has no port "{name}"; its ports are {known}')


def adjust(
    spec: dict[str, Any],
    *,
    copies: Mapping[str, int],
    attributes: Mapping[str, str],
    until: bool | None,
    check_order: bool,
) -> None:
    """Put what the caller of ``Instance.alone`` says over what the model says."""
    for port, declared in attributes.items():
        _find(spec, port)["attributes"] = declared
    for port, count in copies.items():
        _find(spec, port)["copies"] = count
    if until is not None:
        spec["until"] = until
    spec["check_order"] = spec["check_order"] and check_order


def queues(spec: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, list[Message] | list[Object]]:
    """Return the messages, or objects, for each in port; a message without a time stamp has that of its place."""
    queued: dict[str, list[Message] | list[Object]] = {}
    for key, items in inputs.items():
        port = _find(spec, key.partition("[")[0])
        if port["direction"] != "in":
            raise Error(f"{spec['name']}.{port['name']} is an out port: it sends, it cannot be given inputs")
        if _is_file(items):
            items = [items]
        elif isinstance(items, (str, bytes, dict, Message)) or not hasattr(items, "__iter__"):
            raise Error(f"inputs[{key!r}] must be a list with one item per message, not {type(items).__name__}")
        interval = spec["total_s"] if port["operator"] == "finit" else spec["delta_s"]
        items = list(items)
        if port.get("attributes") is not None:
            queued[key] = [item if isinstance(item, Object) else Object(item) for item in items]
            continue
        last = len(items) - 1
        queued[key] = [
            _message(item, index * interval, None if index == last else (index + 1) * interval)
            for index, item in enumerate(items)
        ]
    return queued


def _message(item: Any, timestamp: float, next_timestamp: float | None) -> Message:
    if isinstance(item, Message):
        return item
    return Message(_load(item) if _is_file(item) else item, timestamp, next_timestamp)


def _is_file(item: Any) -> bool:
    return isinstance(item, os.PathLike) or (isinstance(item, str) and item.endswith(".npy"))


def _load(path: str | os.PathLike[str]) -> Any:
    import numpy

    try:
        return numpy.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise Error(f"cannot read {os.fspath(path)} as input: {error}") from None
