"""The states of a flow, as they come: from a running solver, or from the files of one that has ended.

An analysis goes over both in the same way: `for state, time, fields in taken(me, "fields")`, or `in read(folder)`.
`fields` are arrays, rows by columns, by name.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import xmml

#: What a file of the solver holds, in this order.
NAMES = ("density", "momentum_x", "momentum_y", "energy")

Fields = Mapping[str, np.ndarray[Any, Any]]


def taken(me: xmml.Instance, port: str) -> Iterator[tuple[int, float, Fields]]:
    """Take from a pool the selected fields of each state, until the solver has ended."""
    fields: dict[str, Any] = {}
    for field in me.objects(port):
        fields[field["name"]] = field.data
        if field["sys.follow"] == 0:  # the last one of its state
            yield field["state"], field["time"], fields
            fields = {}


def read(folder: Path, every: int = 1) -> Iterator[tuple[int, float, Fields]]:
    """Read every so many states from a folder of `build/to_files`; of a file only what is used."""
    for state, time in np.loadtxt(folder / "times.csv", delimiter=",", ndmin=2)[::every]:
        values = np.load(folder / f"{int(state):04d}.npy", mmap_mode="r")
        yield int(state), float(time), dict(zip(NAMES, values, strict=True))
