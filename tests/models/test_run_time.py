"""The run time that the analysis foretells, against that of programs that really take their time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from small_models import document

from xmml.analysis.analyse import analyse
from xmml.check import check

#: Sleeps its run time in equal parts after the receives of its iterations, or in one piece if it has no loop.
PROGRAM = """import time
import xmml

with xmml.Instance() as me:
    ports = {operator: [port.name for port in me.ports.values() if port.operator == operator] for operator in OPERATORS}
    while me.reuse():
        for port in ports["finit"]:
            me.receive(port)
        if not any(ports[operator] for operator in ("Oi", "S", "B")):
            time.sleep(RUNTIME)
        else:
            for t in me.steps():
                for port in ports["Oi"]:
                    me.send(port, t)
                for port in ports["S"]:
                    me.receive(port)
                time.sleep(RUNTIME / STEPS)
        for port in ports["Of"]:
            me.send(port, 0)
"""
MODELS = {
    "a macro model that calls a micro model": (
        "m 8 runtime=0.8\nu runtime=0.15\nm.Oi.x -> u.finit.x\nu.Of.y -> m.S.y",
        {"m": (0.8, 8), "u": (0.15, 1)},
    ),
    "two that interact, one of them slower": (
        "a 10 runtime=1.0\nb 10 runtime=2.0\na.Oi.x -> b.S.x\nb.Oi.y -> a.S.y",
        {"a": (1.0, 10), "b": (2.0, 10)},
    ),
    "one after the other": ("a runtime=0.8\nb runtime=1.2\na.Of.x -> b.finit.x", {"a": (0.8, 1), "b": (1.2, 1)}),
}
TOLERANCE = 0.05
#: A busy machine may make a run longer, never shorter: one of so many has to be in time.
ATTEMPTS = 3


def measured_s(folder: Path) -> float:
    """Return the time from when all had joined until the last one left."""
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    joined = max(event["time"] for event in events if event["what"] == "joined")
    return max(event["time"] for event in events if event["what"] == "left") - joined


@pytest.mark.parametrize("name", MODELS)
def test_a_run_takes_as_long_as_foretold(name: str, tmp_path: Path, environment: Mapping[str, str]) -> None:
    text, programs = MODELS[name]
    implementations = {}
    for instance, (runtime, steps) in programs.items():
        code = PROGRAM.replace("RUNTIME", str(runtime)).replace("STEPS", str(steps))
        operators = 'OPERATORS = ("finit", "Oi", "S", "B", "Of")\n'
        (tmp_path / f"{instance}.py").write_text(operators + code)
        implementations[instance] = f'<implementation language="python" path="{instance}.py" runtime="{runtime} s"/>'
    path = tmp_path / "model.xmml"
    path.write_text(document(text, implementations))
    times = analyse(check(path).model_or_raise()).times
    assert times is not None
    assert times.is_exact
    found = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / f"run{attempt}"
        command = [sys.executable, "-m", "xmml_run", str(path), "-q", "-o", str(folder)]
        subprocess.run(command, check=True, timeout=60, cwd=tmp_path, env=environment)
        found.append(measured_s(folder))
        if abs(found[-1] - times.makespan_s) <= TOLERANCE * times.makespan_s:
            return
    pytest.fail(f"foretold {times.makespan_s} s, took {found} s")
