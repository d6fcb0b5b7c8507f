"""The methods of a conduit, asked for in each of the ways there are: the same comes of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from commands import XMML
from model_runs import run_document

SENDER = """import json
import xmml

with xmml.Instance() as me:
    while me.reuse():
        ASK
        for t in me.steps():
            me.send("o", t)
            me.receive("i")
        (row,) = me.methods("o")
        print(json.dumps([row["chosen"], row["slower"]]))
"""
ANSWERING = """import xmml

with xmml.Instance() as me:
    while me.reuse():
        number = me.receive("i").data
        for _ in me.steps():
            pass
        me.send("o", number)
"""


def submodel(name: str, file: str, ports: str) -> str:
    program = f'<implementation language="python" path="{file}.py"/>'
    return f'<submodel id="{name}"><timescale delta="1 s" total="3 s"/><ports>{ports}</ports>{program}</submodel>'


A = submodel("A", "a", '<out id="o" operator="Oi"/><in id="i" operator="S"/>')
B = submodel("B", "b", '<out id="o" operator="Of"/><in id="i" operator="finit"/>')
MODEL = (
    '<model id="asked" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
    f'<definitions>{A}{B}</definitions><topology><instance id="a" submodel="A" init="yes"/>'
    '<instance id="b" submodel="B"/><coupling from="a.o" to="b.i"/><coupling from="b.o" to="a.i"/></topology></model>'
)
OURS = '<coupling from="a.o" to="b.i"/>'
#: What is in use, and what would be the next.
CHOSEN = ["tcp", ["unix"]]


@pytest.mark.parametrize("way", ["model", "plan", "environment", "program"])
def test_every_way_of_asking_gives_the_same_table(tmp_path: Path, way: str) -> None:
    model = tmp_path / "model.xmml"
    model.write_text(MODEL.replace(OURS, OURS.replace("/>", ' run:methods="tcp,unix"/>')) if way == "model" else MODEL)
    (tmp_path / "a.py").write_text(
        SENDER.replace("ASK", 'me.set_methods("o", ["tcp", "unix"])' if way == "program" else "pass")
    )
    (tmp_path / "b.py").write_text(ANSWERING)
    document = model
    if way == "plan":
        document = tmp_path / "plan.json"
        subprocess.run([XMML, "plan", str(model), "-o", str(document)], check=True, cwd=tmp_path)
        plan = json.loads(document.read_text())
        (conduit,) = [conduit for conduit in plan["conduits"] if conduit["sender"] == "a"]
        conduit["methods"] = ["tcp", "unix"]
        document.write_text(json.dumps(plan))
    run = run_document(document, env={"XMML_METHODS": "tcp,unix"} if way == "environment" else None)
    assert json.loads(run.output("a")) == CHOSEN


def test_a_run_says_that_a_program_cannot_share_memory_on_its_host(tmp_path: Path) -> None:
    model = tmp_path / "model.xmml"
    model.write_text(MODEL.replace('language="python" path="b.py"', 'path="without_memory.sh"'))
    (tmp_path / "a.py").write_text(SENDER.replace("ASK", "pass"))
    (tmp_path / "b.py").write_text(ANSWERING)
    script = tmp_path / "without_memory.sh"
    script.write_text('#!/bin/bash\nulimit -f 0\nexec python3 "$(dirname "$0")/b.py"\n')
    script.chmod(0o755)
    (told,) = [line for line in run_document(model).stderr.splitlines() if "slower than" in line]
    assert "b.o -> a.i goes by unix, which is slower than shm, although both programs run on one node: " in told
    assert "the limit on file sizes (ulimit -f) is 0 bytes" in told
