"""Where the filters of a conduit run: before a message leaves the sender, or when the receiver takes it.

A chain of filters is cut where least crosses the wire. Each built-in filter declares its `size_ratio`, the bytes that
leave it for each byte that enters (number of messages times their size); the product over the first k filters is what
crosses the wire if the chain is cut there.

Filters of the wire change only how messages travel: what the sender does the receiver undoes. Wherever in the chain
they were applied, they work between the others: first precision, then compression, then the checksum.
"""

from __future__ import annotations

from collections.abc import Sequence

from xmml.late_dataclass import dataclass
from xmml_planner.execution_plan import FilterSpec

#: The filters of the wire in the order in which the sender applies them, each with what undoes it at the receiver. (The
#: checksum is one and the same: the sender adds it, the receiver insists on it.)
WIRE = {"precision": "restore", "zstd": "unzstd", "lz4": "unlz4", "checksum": "checksum"}

#: Of these one is enough.
COMPRESSION = ("zstd", "lz4")


@dataclass(frozen=True)
class Wire:
    """What a message passes on its way: the last filters at the sender, and the first at the receiver."""

    sender: tuple[FilterSpec, ...] = ()
    receiver: tuple[FilterSpec, ...] = ()


def wire_of(filters: Sequence[FilterSpec], compress: str | None = None) -> Wire:
    """Return both halves of the filters of the wire among `filters`. The last of a kind wins, also over `compress`.

    Args:
        compress: the compression of the whole coupling, "lz4" or "zstd:<level>".

    >>> [each.name for each in wire_of([FilterSpec("checksum"), FilterSpec("lz4")]).sender]
    ['lz4', 'checksum']
    """
    kinds: dict[str, FilterSpec] = {}
    if compress is not None:
        method, _, level = compress.partition(":")
        kinds["compression"] = FilterSpec(method, float(level) if level else None)
    for each in filters:
        if each.name in WIRE:
            kinds["compression" if each.name in COMPRESSION else each.name] = each
    sender = tuple(sorted(kinds.values(), key=lambda each: list(WIRE).index(each.name)))
    receiver = tuple(each if each.name == WIRE[each.name] else FilterSpec(WIRE[each.name]) for each in reversed(sender))
    return Wire(sender, receiver)


def cut(size_ratios: Sequence[float]) -> int:
    """Return how many of the first filters belong to the sender.

    Equal traffic is decided for the receiver, whose work then overlaps with the sender's.

    >>> cut([1.0, 0.25, 4.0])    # pipe, compress, decompress
    2
    >>> cut([3.0])               # interpolation
    0
    """
    best, crossing, product = 0, 1.0, 1.0
    for number, ratio in enumerate(size_ratios, start=1):
        product *= ratio
        if product < crossing:
            best, crossing = number, product
    return best
