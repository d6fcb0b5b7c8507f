"""xMML: objects of a pool; or the same payloads as messages, which have no attributes."""

import sys
from collections.abc import Iterator
from typing import Any

import ends

import xmml

FIXED = {
    "class": "od",
    "stream": "enfo",
    "type": "fc",
    "expver": "0001",
    "domain": "g",
    "date": "2026-11-27",
    "time": 1200,
    "levtype": "pl",
}


def play(role: str, way: str) -> None:
    with xmml.Instance() as me:
        number = me.index or 0

        def put(index: int) -> None:
            levels, param = 1 + index % 137, index % ends.PARAMS
            me.put("fields", ends.FIELD, levelist=levels, number=number, step=index, param=param, **FIXED)

        def objects() -> Iterator[tuple[int, Any]]:
            for field in me.objects("fields"):
                yield field["step"], field.data

        def messages() -> Iterator[tuple[int, Any]]:
            for _ in range(ends.PASSES):
                for step in range(ends.COUNT):
                    yield step, me.receive("fields").data

        while me.reuse():
            if role == "writer":
                ends.write(put if way == "pool" else lambda _: me.send("fields", ends.FIELD))
            else:
                ends.read(objects() if way == "pool" else messages(), are_lent=True)


if __name__ == "__main__":
    play(*sys.argv[1:])
