"""ADIOS2 SST: a stream for each pair. A step has the attributes of its objects in a table, and a variable for each."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adios2.bindings as adios2
import ends
import numpy as np

#: So many objects and so many bytes are in a step: those of a step of the forecasts of Maestro, if they are small.
STEP, STEP_B = 1223, 1 << 24
OBJECTS = 1 if ends.IS_FLUSHED else max(1, min(STEP, STEP_B // ends.SIZE_B))
ENTRY_B = ends.TWELVE.size


def opened(number: int, mode: adios2.Mode) -> tuple[Any, Any, Any]:
    """The engine, its IO, and the owner of both, which must outlive them."""
    owner = adios2.ADIOS()
    io = owner.DeclareIO("bench")
    io.SetEngine("SST")
    io.SetParameters({"QueueLimit": "2", "QueueFullPolicy": "Block", "DataTransport": "WAN"})
    return io.Open(str(Path(ends.FOLDER) / f"pair{number}"), mode), io, owner


def writer(number: int) -> None:
    engine, io, _owner = opened(number, adios2.Mode.Write)
    table = np.zeros(OBJECTS * ENTRY_B, np.uint8)
    attributes = io.DefineVariable("attributes", table, table.shape, [0], table.shape)
    shape = ends.FIELD.shape
    variables = [io.DefineVariable(f"p{place}", ends.FIELD, shape, [0], shape) for place in range(OBJECTS)]

    def put(index: int) -> None:
        place = index % OBJECTS
        if place == 0:
            engine.BeginStep()
        table[place * ENTRY_B : (place + 1) * ENTRY_B] = np.frombuffer(ends.packed(number, index), np.uint8)
        engine.Put(variables[place], ends.FIELD)
        if place == OBJECTS - 1 or index == ends.COUNT - 1:
            engine.Put(attributes, table)
            engine.EndStep()

    ends.write(put)
    engine.Close()


def reader(number: int) -> None:
    engine, io, _owner = opened(number, adios2.Mode.Read)

    def objects() -> Iterator[tuple[int, Any]]:
        index = 0
        while engine.BeginStep() == adios2.StepStatus.OK:
            here = min(OBJECTS, ends.COUNT - index % ends.COUNT)
            wanted = [place for place in range(here) if (index % ends.COUNT + place) % ends.PARAMS < ends.WANTED]
            table = np.zeros(OBJECTS * ENTRY_B, np.uint8)
            engine.Get(io.InquireVariable("attributes"), table)
            fields = np.empty((len(wanted), *ends.FIELD.shape))
            for field, place in zip(fields, wanted, strict=True):
                engine.Get(io.InquireVariable(f"p{place}"), field)
            engine.EndStep()
            index += here
            for field, place in zip(fields, wanted, strict=True):
                yield ends.step_of(table[place * ENTRY_B :].tobytes()), field

    taken = objects()
    ends.read(taken)
    engine.Close()


if __name__ == "__main__":
    sys.exit(ends.play(writer, reader))
