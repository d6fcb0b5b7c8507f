"""Medians, tables, and how figures are written."""

from __future__ import annotations

import csv
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Spread:
    """What several rounds gave."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        values = list(values)
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        """The median, and in brackets the least and the most: 23.4 [22.1..30.0]."""
        if self.low == self.high:
            return number(self.median)
        return f"{number(self.median)} [{number(self.low)}..{number(self.high)}]"


def number(value: float) -> str:
    """Three significant digits, never in powers of ten: 0.112, 23.4, 1,050."""
    if value == 0:
        return "0"
    digits = max(0, 2 - int(f"{abs(value):e}".partition("e")[2]))
    return f"{round(value, digits):,.{digits}f}" if digits else f"{float(f'{value:.3g}'):,.0f}"


def size(size_b: int) -> str:
    """0 B, 64 B, 1 KiB, 64 MiB."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_b >= unit:
            return f"{size_b / unit:g} {name}"
    return f"{size_b} B"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned also for reading in a terminal: the first column to the left, figures to the right."""
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(aligned) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows that have the same keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def machine() -> str:
    """What the figures were measured on, in one line."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return (
        f"{len(os.sched_getaffinity(0))} CPUs ({model}), {memory:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )
