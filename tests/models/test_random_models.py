"""Random models for real: the outcome, the runs and the messages are those that the semantics of the model demand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from random_models import Expected, expect, random_model

#: Exit statuses by outcome. Where one part fails and another one is stuck, either may be noticed first.
STATUSES = {"done": {0}, "deadlock": {6}, "failed": {4, 6}}
#: So many models of each outcome; with XMML_SOAK=1 as many more as there are in a larger number of seeds.
FEW = {"done": 4, "deadlock": 2, "failed": 2}
MANY_SEEDS = 200


def seeds() -> list[int]:
    if os.environ.get("XMML_SOAK"):
        return list(range(MANY_SEEDS))
    chosen: list[int] = []
    found: Counter[str] = Counter()
    for seed in range(MANY_SEEDS):
        outcome = expect(random_model(seed)).outcome
        if found[outcome] < FEW[outcome]:
            found[outcome] += 1
            chosen.append(seed)
    return chosen


@pytest.mark.parametrize("methods", ["unix", "tcp"])
@pytest.mark.parametrize("seed", seeds())
def test_a_random_model_does_what_its_semantics_demand(tmp_path: Path, seed: int, methods: str) -> None:
    model = random_model(seed)
    expected = expect(model)
    run = subprocess.run(
        [sys.executable, "-m", "xmml_run", str(model.write(tmp_path)), "--json", "-o", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "XMML_METHODS": methods},
        check=False,
    )
    if expected.outcome != "done" and run.returncode == 1:
        assert "error[E21]" in run.stderr  # nobody could ever have started
        return
    assert run.returncode in STATUSES[expected.outcome], (expected, run.stderr)
    if expected.outcome == "done":
        check_counts(expected, json.loads(run.stdout.splitlines()[-1])["instances"])


def check_counts(expected: Expected, report: dict[str, dict[str, int]]) -> None:
    for name, told in report.items():
        assert told["runs"] == expected.runs[name], name
        assert told["messages_received"] == expected.received[name], name
        if not expected.dropped:
            assert told["messages_sent"] == expected.sent[name], name
