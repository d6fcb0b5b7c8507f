"""The built-in mappers: ``duplicate``, ``gather``, ``scatter`` and ``concatenate``; ``class="gather"`` in the model.

Ports count in the order of the model; a port that leads to or comes from a multiplied instance counts once per copy.
numpy is imported only when an array is mapped.
"""

from __future__ import annotations

from xmml_native._native import Message
from xmml_native.errors import DataTypeError, Error
from xmml_native.submodel import run_mapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from xmml_native.instance import Instance

    Inputs = dict[str, Message | list[Message]]


def run(me: Instance, name: str) -> None:
    """Run the built-in mapper ``name`` until an in port has ended."""
    if name not in BUILT_IN:
        raise Error(f'{me.name}: there is no built-in mapper "{name}"; there are {", ".join(BUILT_IN)}')
    BUILT_IN[name](me)


def duplicate(me: Instance) -> None:
    """One in port; the same message, time stamps included, to every out port and copy."""
    (source,), targets = _in_ports(me, "duplicate", most=1), _out_ports(me)
    run_mapper(me, lambda inputs: dict.fromkeys(targets, _only(inputs[source], me, source)))


def gather(me: Instance) -> None:
    """Numbers, or arrays of one shape and type, stacked along a new first axis; anything else as a list."""
    _fan_in(me, "gather", stack)


def concatenate(me: Instance) -> None:
    """Arrays joined along their first axis; also lists, text and bytes."""
    _fan_in(me, "concatenate", join)


def scatter(me: Instance) -> None:
    """One in port; an array (or list) is cut along its first axis, as evenly as possible, a part for each target."""
    (source,), targets = _in_ports(me, "scatter", most=1), _out_ports(me)
    copies = {port: me.copies(port) for port in targets}
    total = sum(count or 1 for count in copies.values())

    def map_once(inputs: Inputs) -> dict[str, Any]:
        message = _only(inputs[source], me, source)
        parts = iter(split(message.data, total))
        stamped = (Message(part, message.timestamp, message.next_timestamp) for part in parts)
        return {
            port: [next(stamped) for _ in range(count)] if count else next(stamped) for port, count in copies.items()
        }

    run_mapper(me, map_once)


BUILT_IN: dict[str, Callable[[Instance], None]] = {
    "duplicate": duplicate,
    "gather": gather,
    "scatter": scatter,
    "concatenate": concatenate,
}


def stack(values: Sequence[Any]) -> Any:
    """Stack numbers or arrays of one shape and type along a new first axis; a list if they are anything else.

    >>> stack(["a", "b"])
    ['a', 'b']
    """
    if not all(_is_number(value) or _is_array(value) for value in values):
        return list(values)
    import numpy

    arrays = [numpy.asarray(value) for value in values]
    kinds = {(array.dtype.name, array.shape) for array in arrays}
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{dtype} of shape {shape}" for dtype, shape in kinds))
        raise DataTypeError(f"gather needs arrays of one type and shape; it received {found}")
    return numpy.stack(arrays)


def join(values: Sequence[Any]) -> Any:
    """Join arrays along their first axis, or lists, texts or bytes.

    >>> join([[1, 2], [3]])
    [1, 2, 3]
    """
    first = values[0]
    for sequence in (list, str, bytes):
        if all(isinstance(value, sequence) for value in values):
            return [item for value in values for item in value] if sequence is list else type(first)().join(values)
    if not all(_is_array(value) and value.ndim for value in values):
        found = ", ".join(sorted({type(value).__name__ for value in values}))
        raise DataTypeError(
            f"concatenate joins arrays of rank 1 or more, lists, text or bytes, not {found}; gather stacks numbers"
        )
    import numpy

    kinds = {(array.dtype.name, array.shape[1:]) for array in values}
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{dtype} with shape (n, *{shape})" for dtype, shape in kinds))
        raise DataTypeError(
            f"concatenate needs arrays of one type that agree but for the first axis; it received {found}"
        )
    return numpy.concatenate(values)


def split(value: Any, parts: int) -> list[Any]:
    """Cut an array or list along its first axis into parts whose lengths differ by one at most, longer ones first.

    >>> split([1, 2, 3, 4, 5], 2)
    [[1, 2, 3], [4, 5]]
    """
    if not isinstance(value, list) and not (_is_array(value) and value.ndim):
        raise DataTypeError(f"scatter cuts arrays of rank 1 or more, and lists; it received {type(value).__name__}")
    length, longer = divmod(len(value), parts)
    ends = [part * length + min(part, longer) for part in range(parts + 1)]
    return [value[ends[part] : ends[part + 1]] for part in range(parts)]


def _fan_in(me: Instance, name: str, combine: Callable[[Sequence[Any]], Any]) -> None:
    _in_ports(me, name)
    targets = _out_ports(me)

    def map_once(inputs: Inputs) -> dict[str, Any]:
        messages = [m for received in inputs.values() for m in (received if isinstance(received, list) else [received])]
        combined = combine([message.data for message in messages])
        if isinstance(combined, list):  # one message, not a list of one item per copy
            combined = _stamped(combined, messages)
        return dict.fromkeys(targets, combined)

    run_mapper(me, map_once)


def _stamped(data: Any, messages: Sequence[Message]) -> Message:
    latest = max(messages, key=lambda message: message.timestamp)
    return Message(data, latest.timestamp, latest.next_timestamp)


def _in_ports(me: Instance, name: str, most: int | None = None) -> list[str]:
    ports = _ports(me, "in")
    if not ports or (most is not None and len(ports) > most):
        wanted = "one coupled in port" if most == 1 else "at least one coupled in port"
        raise Error(f"{me.name}: the mapper {name} needs {wanted}; it has {', '.join(ports) or 'none'}")
    return ports


def _out_ports(me: Instance) -> list[str]:
    return _ports(me, "out")


def _ports(me: Instance, direction: str) -> list[str]:
    return [p["name"] for p in me.spec["ports"] if p["direction"] == direction and me.connected(p["name"])]


def _only(received: Message | list[Message], me: Instance, port: str) -> Message:
    if isinstance(received, list):
        raise Error(f"{me.name}.{port} comes from {len(received)} copies; use gather or concatenate")
    return received


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "dtype")
