"""The golden vectors of the protocol mean the same to a reader in C++ that was written from docs/protocol.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiled import compiled, run

HERE = Path(__file__).parent
READABLE = {"message", "end", "gone", "receipt", "resume"}
VECTORS = [
    vector
    for vector in json.loads((HERE.parents[1] / "data/golden/frames.json").read_text())
    if vector["meaning"]["frame"] in READABLE
]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_means_the_same_in_cpp(vector: dict[str, Any]) -> None:
    assert json.loads(run(compiled(HERE / "golden.cpp"), vector["hex"])) == vector["meaning"]
