"""How conduits travel, as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_TITLES = ("conduit", "method", "sent", "taken", "bytes", "held", "rate", "latency")

#: What may become of messages that are not taken: figures of conduits, and what to say of them.
_NOT_TAKEN = (
    ("replaced", "messages were replaced by newer ones"),
    ("dropped", "were dropped: the receiver had left, or was too slow and may lose some"),
    ("waiting", "objects wait until a reader has room"),
)


def conduit_lines(conduits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line of titles and one for each conduit; below it, why methods were refused, a line for each
    reason, and what became of messages that were not taken."""
    if not conduits:
        return []
    cells = [_TITLES, *map(_cells, conduits)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_TITLES))]
    lines = []
    for place, row in enumerate(cells):
        left = [row[column].ljust(widths[column]) for column in (0, 1)]
        right = [row[column].rjust(widths[column]) for column in range(2, len(_TITLES))]
        lines.append(f"  {'  '.join([*left, *right])}")
        if place > 0:
            refused = conduits[place - 1]["refused"]
            for reason in dict.fromkeys(refused.values()):
                methods = ", ".join(method for method, why in refused.items() if why == reason)
                lines.append(f"    {methods} refused: {reason}")
            lines += [f"    {count:,} {words}" for name, words in _NOT_TAKEN if (count := conduits[place - 1][name])]
    return lines


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate = f"{amount(row['bytes_per_s'])}/s" if row["bytes_per_s"] else "-"
    return (
        row["name"],
        f"{row['method'] or '-'}{', protected' if row['protected'] else ''}",
        _count(row["sent"]),
        _count(row["received"]),
        "-" if row["bytes"] is None else amount(row["bytes"]),
        amount(row["held_bytes"]) if row["held_bytes"] else "-",
        rate,
        duration(row["latency_s"]),
    )


def _count(messages: int | None) -> str:
    return "-" if messages is None else f"{messages:,}"


def amount(count: float) -> str:
    """Return a number of bytes with a unit that suits it."""
    for size, unit in _UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float | None) -> str:
    """Return a short time with a unit that suits it."""
    if seconds is None:
        return "-"
    if seconds >= 1.0:
        return f"{seconds:.1f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.1f} us"
