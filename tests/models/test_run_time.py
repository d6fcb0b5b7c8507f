"""The run time that the analysis foretells, against that of programs that take so long by a clock of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_runs import run_document
from small_models import document

from xmml.analysis.analyse import analyse
from xmml.check import check

#: Takes its run time in equal parts after the receives of its iterations, or in one piece if it has no loop. Nobody
#: sleeps: every message carries the time at which it is sent, and whoever receives it has waited until then.
PROGRAM = """import xmml

with xmml.Instance() as me:
    ports = {}
    for port in me.ports.values():
        ports.setdefault(port.operator, []).append(port.name)
    now_s = 0.0
    while me.reuse():
        for port in ports.get("finit", ()):
            now_s = max(now_s, me.receive(port).data)
        if ports.keys() & {"Oi", "S", "B"}:
            for _ in me.steps():
                for port in ports.get("Oi", ()):
                    me.send(port, now_s)
                for port in ports.get("S", ()):
                    now_s = max(now_s, me.receive(port).data)
                now_s += RUNTIME / STEPS
        else:
            now_s += RUNTIME
        for port in ports.get("Of", ()):
            me.send(port, now_s)
    print(now_s)
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


@pytest.mark.parametrize("name", MODELS)
def test_a_run_takes_as_long_as_foretold(name: str, tmp_path: Path) -> None:
    text, programs = MODELS[name]
    implementations = {}
    for instance, (runtime, steps) in programs.items():
        code = PROGRAM.replace("RUNTIME", str(runtime)).replace("STEPS", str(steps))
        (tmp_path / f"{instance}.py").write_text(code)
        implementations[instance] = f'<implementation language="python" path="{instance}.py" runtime="{runtime} s"/>'
    path = tmp_path / "model.xmml"
    path.write_text(document(text, implementations))
    times = analyse(check(path).model_or_raise()).times
    assert times is not None
    assert times.is_exact
    run = run_document(path)
    assert max(float(run.output(instance)) for instance in programs) == pytest.approx(times.makespan_s)
