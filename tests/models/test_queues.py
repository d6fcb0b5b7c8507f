"""Queues, whose readers share the objects of a pool, and pools that may lose objects, in whole runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from gates import awaits, says
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
    slow_begins, fast_goes_on = tmp_path / "slow", tmp_path / "fast"
    worker = f"""
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number, job in enumerate(me.objects("fields")):
                    if me.index == 0 and number == 0:
                        {says(slow_begins)}
                        {awaits(fast_goes_on)}
                    if me.index == 1 and number == 0:
                        {awaits(slow_begins)}
                    if me.index == 1 and number == 60:
                        {says(fast_goes_on)}
                    print(job.data)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Worker": worker},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>',
        pool("w", "worker", share="queue"),
    )
    run = run_document(model, folder=tmp_path / "run")
    slow, fast = (len(run.lines(f"worker[{copy}]")) for copy in (0, 1))
    assert slow + fast == 100
    assert 0 < slow < fast, "none is kept for the slow one"


def test_a_writer_is_told_how_many_objects_wait_for_its_workers(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(20):
                    me.put("fields", number, step=number)
                print([row["waiting"] for row in me.methods("fields")])
                me.put("go", step=0)
    """
    worker = WORKER.replace("for job", 'me.take("go")\n            for job', 1)
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Worker": worker},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>',
        pool("w", "worker", share="queue") + pool("w", "worker").replace(".fields", ".go"),
        {
            "Writer": '<out id="fields" datatype="field"/><out id="go" datatype="field"/>',
            "Worker": '<in id="fields" datatype="field"/><in id="go" datatype="field"/>',
        },
    )
    run = run_document(model, folder=tmp_path / "run")
    of_queue, of_others = json.loads(run.output("w"))
    assert 18 <= of_queue <= 20, "each worker is given one at most before it takes any"
    assert of_others == 0, "it is told once"
    assert sum(len(run.lines(f"worker[{copy}]")) for copy in (0, 1)) == 20


BOSS = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            me.take("reports")
            me.put("news", 1, step=1)
"""


def with_boss(folder: Path, jobs: int, worker: str) -> Path:
    """Write a model with two workers of a queue, and a boss who has news when one of them reports."""
    ports = '<in id="fields" datatype="field"/><in id="news" datatype="field"/><out id="reports" datatype="field"/>'
    return model_of(
        folder,
        {"Writer": WRITER.replace("100", str(jobs)), "Worker": worker, "Boss": BOSS},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>'
        '<instance id="boss" submodel="Boss"/>',
        pool("w", "worker", share="queue")
        + pool("worker", "boss").replace(".fields", ".reports")
        + pool("boss", "worker").replace(".fields", ".news"),
        {"Worker": ports, "Boss": '<in id="reports" datatype="field"/><out id="news" datatype="field"/>'},
    )


def test_a_worker_that_waits_for_what_comes_after_the_end_of_its_queue_is_in_a_deadlock(tmp_path: Path) -> None:
    """The end comes when all objects are dealt with, and who was given the first deals with it as long as it waits."""
    worker = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for job in me.objects("fields"):
                    if job["step"] == 0:
                        me.take("news")
                me.put("reports", 1, step=1)
    """
    run = run_document(with_boss(tmp_path / "model", 2, worker), folder=tmp_path / "run", status=6)
    assert re.search(r"worker\[[01]\] waits at news for the first object of boss\.news", run.stderr)


def test_a_deadlock_is_found_in_which_objects_were_given_after_the_writer_began_to_wait_for_its_end(
    tmp_path: Path,
) -> None:
    all_are_put = tmp_path / "put"
    worker = f"""
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number, job in enumerate(me.objects("fields")):
                    {awaits(all_are_put)}
                    time.sleep(0.3)  # for the writer to wait; it is a deadlock also if that does so later
                    if number == 2:
                        me.take("news")
                me.put("reports", 1, step=1)
    """
    model = with_boss(tmp_path / "model", 6, worker)
    with (tmp_path / "model" / "Writer.py").open("a") as writer:
        writer.write(f"        {says(all_are_put)}\n")
    run = run_document(model, folder=tmp_path / "run", status=6)
    assert re.search(r"worker\[[01]\] waits at news for the first object of boss\.news", run.stderr)


def losing(folder: Path, writer: str, reader: str) -> Path:
    """Write a model whose reader may lose objects, and begins when the writer has put all."""
    return model_of(
        folder,
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", loss="allowed", limit="1 MB") + '<coupling from="w.done" to="r.done"/>',
        {
            "Writer": '<out id="fields" datatype="field"/><out id="done" operator="Of"/>',
            "Reader": '<in id="fields" datatype="field"/><in id="done" operator="finit"/>',
        },
    )


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
    run = run_document(losing(tmp_path / "model", writer, reader), folder=tmp_path / "run")
    steps = [int(step) for step in run.lines("r")[0].split()]
    assert steps == sorted(steps)
    assert steps[-1] == 49
    assert 5 < len(steps) < 20
    lost = 50 - len(steps)
    assert f"{lost} of its objects on w.fields -> r.fields were not received: as run:loss allows" in run.stderr


def test_the_count_of_lost_objects_counts_those_of_groups(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(20):
                    with me.group("fields", step=number) as record:
                        for param in "tuv":
                            record.put(bytes(30_000), param=param)
                me.send("done", 1)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.receive("done")
                print(sum(1 for each in me.objects("fields")))
    """
    run = run_document(losing(tmp_path / "model", writer, reader), folder=tmp_path / "run")
    lost = 60 - int(run.lines("r")[0])
    assert f"{lost} of its objects on w.fields -> r.fields were not received" in run.stderr


def test_a_reader_that_may_lose_objects_may_pause_after_it_was_fast(tmp_path: Path) -> None:
    reader_pauses, all_are_put = tmp_path / "pauses", tmp_path / "put"
    writer = f"""
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(300):
                    me.put("fields", bytes(10), step=number)
                    time.sleep(0.002)
                {awaits(reader_pauses)}
                for number in range(300, 400):
                    me.put("fields", bytes(600_000), step=number)
                {says(all_are_put)}
    """
    reader = f"""
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for each in me.objects("fields"):
                    last = each["step"]
                    if last == 298:
                        {says(reader_pauses)}
                        {awaits(all_are_put)}
                print(last)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", loss="allowed", limit="1 MB"),
    )
    assert run_document(model, folder=tmp_path / "run").lines("r") == ["399"]


def test_an_onlooker_that_may_lose_objects_does_not_keep_workers_from_the_end_of_their_queue(tmp_path: Path) -> None:
    worker = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.put("reports", sum(1 for job in me.objects("fields")), step=1)
    """
    onlooker = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(me.take("reports").data)
                print(sum(1 for each in me.objects("fields")))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER.replace("100", "10"), "Worker": worker, "Onlooker": onlooker},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker"/>'
        '<instance id="o" submodel="Onlooker"/>',
        pool("w", "worker", share="queue")
        + pool("w", "o", loss="allowed")
        + pool("worker", "o").replace(".fields", ".reports"),
        {
            "Worker": '<in id="fields" datatype="field"/><out id="reports" datatype="field"/>',
            "Onlooker": '<in id="reports" datatype="field"/><in id="fields" datatype="field"/>',
        },
    )
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("o")[0] == "10"


TOO_SMALL = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for number in range(10):
                me.put("fields", bytes({small}), step=number)
            {says}
            me.put("fields", bytes({large}), step=10)
            me.put("go", 1, step=1)
"""


def too_small(folder: Path, worker: str, small: int, large: int, says: str = "pass") -> Path:
    """Write a model whose queue must grow: a worker waits for what is put behind more than its limit.

    `says` is what its writer does between the small objects and the large one.
    """
    return model_of(
        folder,
        {"Writer": TOO_SMALL.format(small=small, large=large, says=says), "Worker": worker},
        '<instance id="w" submodel="Writer"/><instance id="worker" submodel="Worker" multiplicity="2"/>',
        pool("w", "worker", share="queue", limit="1 MB") + pool("w", "worker").replace(".fields", ".go"),
        {
            "Writer": '<out id="fields" datatype="field"/><out id="go" datatype="field"/>',
            "Worker": '<in id="fields" datatype="field"/><in id="go" datatype="field"/>',
        },
    )


def test_a_queue_that_is_too_small_grows_also_when_one_of_its_workers_has_left(tmp_path: Path) -> None:
    worker = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                if me.index == 1:
                    break
                me.take("go")
                print(sum(1 for each in me.objects("fields")))
    """
    model = too_small(tmp_path / "model", worker, 200_000, 200_000)
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("worker[0]") == ["11"]


def test_a_queue_that_is_too_small_grows_also_when_objects_were_given_while_a_put_waited(tmp_path: Path) -> None:
    large_is_next = tmp_path / "large"
    worker = f"""
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number, each in enumerate(me.objects("fields")):
                    {awaits(large_is_next)}
                    time.sleep(0.3)  # for the writer to wait; the queue is too small also if that does so later
                    if number == 2:
                        me.take("go")
    """
    model = too_small(tmp_path / "model", worker, 50_000, 900_000, says(large_is_next))
    assert "grew to" in run_document(model, folder=tmp_path / "run").stderr
