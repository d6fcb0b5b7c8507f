"""The peer of the cross-language suite in Python: sends every case on every out port, or describes what arrives.

See README.md. The formula of the elements is in `elements.py`, which the checker of the reports uses too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import elements
import numpy as np

import xmml


class Peer(xmml.Submodel):
    """As a class, so that it can also be hosted: `writer` or `reader` by its name."""

    def __init__(self) -> None:
        self.languages = self.me.param("languages").split()
        self.writes = self.me.name.startswith("w")
        self.number = 0
        self.tokens = iter(Path(self.me.param("cases")).read_text().split() if self.writes else ())

    def O_i(self) -> None:
        if not self.writes:
            return
        assert int(next(self.tokens)) == self.number
        time = elements.double(next(self.tokens))
        word = next(self.tokens)
        following: Any = {"-": ..., "none": None}[word] if word in ("-", "none") else elements.double(word)
        self.arrays = 0
        data = self.value(next(self.tokens))
        for language in self.languages:
            port = f"to_{language}"
            if self.number % 2:
                self.me.out(port).send(data, time, following)
            else:
                self.me.send(port, data, time, following)

    def S(self) -> None:
        if not self.writes:
            for language in self.languages:
                port = f"from_{language}"
                message = self.me.in_(port).receive() if self.number % 2 else self.me.receive(port)
                self.arrays = 0
                following = "none" if message.next_timestamp is None else elements.bits(message.next_timestamp)
                words = [str(self.number), elements.bits(message.timestamp), following, *self.described(message.data)]
                with Path(port).open("a") as report:
                    print(*words, file=report)
        self.number += 1

    def value(self, kind: str) -> Any:
        """The value that the next tokens describe."""
        take = self.tokens.__next__
        match kind:
            case "nothing":
                return None
            case "bool":
                return take() == "1"
            case "int":
                return int(take())
            case "double":
                return elements.double(take())
            case "complex":
                return complex(elements.double(take()), elements.double(take()))
            case "text":
                return bytes.fromhex(take()[1:]).decode()
            case "bytes":
                return bytes.fromhex(take()[1:])
            case "array":
                dtype, order = take(), take()
                shape = [int(take()) for _ in range(int(take()))]
                return elements.array(dtype, shape, self.seed(), order)
            case "[":
                return list(self.items())
            case "{":
                return {bytes.fromhex(key[1:]).decode(): self.value(take()) for key in iter(take, "}")}
        raise ValueError(f"no such kind: {kind}")

    def items(self) -> Iterator[Any]:
        """The elements of a list."""
        for kind in iter(self.tokens.__next__, "]"):
            yield self.value(kind)

    def seed(self) -> int:
        """The seed of the next array of the case."""
        self.arrays += 1
        return self.number + 100 * (self.arrays - 1)

    def described(self, data: Any) -> Iterator[str]:
        """The words that describe a value."""
        match data:
            case None:
                yield "nothing"
            case bool():
                yield from ("bool", str(int(data)))
            case int():
                yield from ("int", str(data))
            case float():
                yield from ("double", elements.bits(data))
            case complex():
                yield from ("complex", elements.bits(data.real), elements.bits(data.imag))
            case str():
                yield from ("text", "x" + data.encode().hex())
            case bytes():
                yield from ("bytes", "x" + data.hex())
            case np.ndarray():
                yield from self.described_array(data)
            case list():
                yield "["
                for item in data:
                    yield from self.described(item)
                yield "]"
            case dict():
                yield "{"
                for key, item in data.items():
                    yield "x" + key.encode().hex()
                    yield from self.described(item)
                yield "}"
            case _:
                yield f"unexpected {type(data)}"

    def described_array(self, data: np.ndarray) -> Iterator[str]:
        """The words that describe an array; whether each element is right, by its indices."""
        order = "row" if data.flags.c_contiguous else "column"
        yield from ("array", str(data.dtype), order, order, str(data.ndim), *map(str, data.shape))
        yield elements.digest(data, order)
        expected = elements.array(str(data.dtype), data.shape, self.seed(), order)
        if expected.tobytes() != data.tobytes():  # both with the last index fastest
            yield "wrong"
