"""Where the filters of a conduit run: before a message leaves the sender, or when the receiver takes it.

A chain of filters is cut where least crosses the wire. Each built-in filter declares its `size_ratio`, the bytes that
leave it for each byte that enters (number of messages times their size); the product over the first k filters is what
crosses the wire if the chain is cut there.
"""

from __future__ import annotations

from collections.abc import Sequence


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
