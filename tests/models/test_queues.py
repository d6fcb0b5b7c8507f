"""Queues, whose readers share the objects of a pool, and pools that may lose objects, in whole runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from model_runs import run_document
from pool_models import model_of, pool

WRITER = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for number in range(100):
                me.put("fields", number, step=number)
"""
WORKER = """
    import time, xmml
    with xmml.Instance() as me:
        while me.reuse():
            for job in me.objects("fields", timeout=60):
                print(job.get("sys.index", 0), job.data)
"""


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
def test_each_object_of_a_queue_goes_to_one_copy_of_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Worker": WORKER},
        '<instance id="w" submodel="Writer" multiplicity="2"/>'
        '<instance id="worker" submodel="Worker" multiplicity="3"/><instance id="all" submodel="Worker"/>',
        pool("w", "worker", "step % 2 = 0", share="queue") + pool("w", "all"),
    )
    run = run_document(model, folder=tmp_path / "run")
    shared = Counter(line for copy in range(3) for line in run.lines(f"worker[{copy}]"))
    assert shared == Counter(f"{index} {number}" for index in (0, 1) for number in range(0, 100, 2))
    assert len(run.lines("all")) == 200


def test_a_slow_worker_of_a_queue_gets_fewer_objects(tmp_path: Path) -> None:
    worker = WORKER.replace("print(", "time.sleep(0.001 if me.index else 0.5); print(")
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Worker": worker},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>',
        pool("w", "worker", share="queue"),
    )
    run = run_document(model, folder=tmp_path / "run")
    slow, fast = (len(run.lines(f"worker[{copy}]")) for copy in (0, 1))
    assert slow + fast == 100
    assert slow < fast


def test_a_worker_that_waits_for_what_comes_after_the_end_of_its_queue_is_in_a_deadlock(tmp_path: Path) -> None:
    """The end comes when all objects are dealt with, and the first copy deals with its own as long as it waits."""
    worker = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for job in me.objects("fields"):
                    if me.index == 0:
                        me.take("news")
                me.put("reports", 1, step=1)
    """
    boss = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.take("reports")
                me.put("news", 1, step=1)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER.replace("100", "2"), "Worker": worker, "Boss": boss},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>'
        '<instance id="boss" submodel="Boss"/>',
        pool("w", "worker", share="queue")
        + pool("worker", "boss").replace(".fields", ".reports")
        + pool("boss", "worker").replace(".fields", ".news"),
        {
            "Worker": '<in id="fields" datatype="field"/><in id="news" datatype="field"/>'
            '<out id="reports" datatype="field"/>',
            "Boss": '<in id="reports" datatype="field"/><out id="news" datatype="field"/>',
        },
    )
    run = run_document(model, folder=tmp_path / "run", status=6)
    assert "worker[0] waits at news for the first object of boss.news" in run.stderr


def test_a_reader_that_may_lose_objects_does_not_hold_up_their_writer(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(50):
                    me.put("fields", bytes(100_000), step=number)
                me.send("done", 1)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.receive("done")
                print(*(each["step"] for each in me.objects("fields")))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", loss="allowed", limit="1 MB") + '<coupling from="w.done" to="r.done"/>',
        {
            "Writer": '<out id="fields" datatype="field"/><out id="done" operator="Of"/>',
            "Reader": '<in id="fields" datatype="field"/><in id="done" operator="finit"/>',
        },
    )
    run = run_document(model, folder=tmp_path / "run")
    steps = [int(step) for step in run.lines("r")[0].split()]
    assert steps == sorted(steps)
    assert steps[-1] == 49
    assert 5 < len(steps) < 20
    lost = 50 - len(steps)
    assert f"{lost} of its objects on w.fields -> r.fields were not received: as run:loss allows" in run.stderr
