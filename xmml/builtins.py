"""What the runtime offers by name: the classes of filters, mappers and terminals that need no program.

Tests hold these tables against the runtime itself.
"""

from __future__ import annotations

from collections.abc import Mapping

FILTERS = (
    "blockafter",
    "checksum",
    "chunk",
    "compress",
    "console",
    "convert",
    "dechunk",
    "decompress",
    "deserialize",
    "drop",
    "extrapolate",
    "last",
    "lineartimeinterpolation",
    "linearinterpolation",
    "lz4",
    "mean",
    "multiply",
    "null",
    "pipe",
    "precision",
    "repeat",
    "serialize",
    "sum",
    "thread",
    "timefactor",
    "timeoffset",
    "zstd",
)

#: The built-in mappers, and which of in and out ports they have one of.
MAPPERS: Mapping[str, str] = {"concatenate": "out", "duplicate": "in", "gather": "out", "scatter": "in"}

TERMINALS = ("archive", "csv", "npy", "text")

#: Those that keep objects of pools, or put them; the others receive and send messages.
TERMINALS_OF_OBJECTS = frozenset({"archive"})

#: The parameters of built-in terminals.
TERMINAL_PARAMETERS: Mapping[str, frozenset[str]] = {
    "source": frozenset({"file", "messages", "repeat", "start", "delta", "delimiter", "skip", "content", "select"}),
    "sink": frozenset({"file", "append", "delimiter"}),
}

#: The built-in classes of each kind of definition.
CLASSES: Mapping[str, tuple[str, ...]] = {"filter": FILTERS, "mapper": tuple(MAPPERS), "terminal": TERMINALS}
