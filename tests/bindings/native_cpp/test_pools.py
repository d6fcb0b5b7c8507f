"""Pools in C++: instances that are moved. tests/models/test_pools_in_every_language.py has the rest."""

from __future__ import annotations

from pathlib import Path

from compiled import SANITIZED, compiled
from model_runs import run_document
from pool_models import model_of, pool

READER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            print(field["step"], field.data)
"""


def test_groups_go_on_when_their_instance_is_moved(tmp_path: Path) -> None:
    writer = compiled(Path(__file__).parent / "pools.cpp", *SANITIZED)
    model = model_of(
        tmp_path / "model",
        {"Reader": READER},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
        writers={"Writer": f'path="{writer}"'},
    )
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("w") == ["1"]
    assert run.lines("r") == ["1 1", "1 2", "3 4"]
