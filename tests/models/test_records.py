"""Records from the start of a run: `xmml-run --record`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from commands import do
from model_runs import run_document
from pool_models import model_of, pool

WRITER = """
    import numpy, xmml
    with xmml.Instance() as me:
        while me.reuse():
            for number in range(500):
                me.send("levels", numpy.full(1000, number))
                me.put("fields", [number], step=number)
            me.send("last", 7)
"""
#: It takes half of what is put, and leaves before most messages have come.
READER = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            print(sum(1 for _ in me.objects("fields", timeout=60)))
            me.receive("levels")
"""
PORTS = {
    "Writer": '<out id="levels" operator="Oi"/><out id="fields" datatype="field"/><out id="last" operator="Of"/>',
    "Reader": '<in id="levels" operator="S"/><in id="fields" datatype="field"/>',
}


def model(folder: Path) -> Path:
    return model_of(
        folder,
        {"Writer": WRITER, "Reader": READER},
        '<instance id="w" submodel="Writer" run:order="free"/><instance id="r" submodel="Reader" run:order="free"/>',
        '<coupling from="w.levels" to="r.levels" run:capacity="1000"/>' + pool("w", "r", "step % 2 = 0"),
        PORTS,
    )


def kept(archive: Path) -> list[dict[str, object]]:
    listed = do("xmml", "pool", "ls", archive, "--json")
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def test_everything_that_passes_is_kept_whether_somebody_takes_it_or_not(tmp_path: Path) -> None:
    run = run_document(model(tmp_path / "model"), "--record", "w.*", folder=tmp_path / "run")
    archive = run.work("record") / "record.archive"
    passed = Counter((row["sys.port"], row["sys.seq"]) for row in kept(archive))
    assert passed == Counter([*((port, seq) for port in ("levels", "fields") for seq in range(500)), ("last", 0)])
    assert do("xmml", "pool", "verify", archive).returncode == 0
    assert run.lines("r") == ["250"]
    assert "instances/record/work/record.archive" in run.stderr


def test_the_plan_of_a_run_says_what_it_records(tmp_path: Path) -> None:
    document = model(tmp_path / "model")
    run = run_document(document, "--record", "w.fields,w.last", folder=tmp_path / "run")
    plan = json.loads((run.folder / "plan.json").read_text())
    recorded = {each["sender_port"] for each in plan["conduits"] if each["receiver"] == "record"}
    assert recorded == {"fields", "last"}


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ("w.levls", '--record: no out port is called "w.levls"; did you mean "w.levels"'),
        ("r.fields", '--record: no out port is called "r.fields"'),
        ("", "no port is named"),
    ],
)
def test_what_cannot_be_recorded_is_said_before_anything_runs(tmp_path: Path, record: str, told: str) -> None:
    run = run_document(model(tmp_path / "model"), "--record", record, folder=tmp_path / "run", status=2)
    assert told in run.stderr
    assert not run.folder.exists()


def test_a_plan_records_what_it_says(tmp_path: Path) -> None:
    run = run_document(model(tmp_path / "model"), folder=tmp_path / "run")
    again = run_document(run.folder / "plan.json", "--record", "w.*", folder=tmp_path / "again", status=2, env={})
    assert "is a plan, which cannot be changed: give --record with the model" in again.stderr
