"""Workers that die while the run goes on, in whole runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from model_runs import Run, run_document
from pool_models import model_of, pool

JOBS = 150

WRITER = f"""
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for number in range({JOBS}):
                me.put("fields", number, step=number)
"""

WORKER = """
    import os, random, signal, threading, time, xmml

    DEAD = os.path.join(os.environ["XMML_MODEL_DIR"], "dead")

    def die(error=None):
        open(DEAD, "w").close()
        if error is not None:
            raise error
        os.kill(os.getpid(), signal.SIGKILL)

    def survive():  # the other one would not get any work if this one did all of it
        while not os.path.exists(DEAD):
            time.sleep(0.01)

    with xmml.Instance() as me:
        while me.reuse():
            chance = random.Random({seed} * 100 + me.index)
            {begin}
            for job in me.objects("fields", timeout=60):
                {work}
                me.put("maps", job.data, step=job["step"])
                print(job["step"], job.get("sys.redelivered", 0))
"""

ATLAS = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for each in me.objects("maps"):
                print(each["step"])
"""

#: All but the first copy are killed at some moment, most of them before the work is done.
KILLED = """if me.index:
                timer = threading.Timer(chance.uniform(0, 0.6), die)
                timer.daemon = True
                timer.start()"""


def farm(
    folder: Path, copies: int, *, begin: str = "pass", work: str = "pass", seed: int = 0, settings: str = "continue"
) -> Path:
    """Write a model of a writer, workers that share what it puts, and an atlas of what they make of it."""
    return model_of(
        folder,
        {"Writer": WRITER, "Worker": WORKER.format(begin=begin, work=work, seed=seed), "Atlas": ATLAS},
        '<instance id="w" submodel="Writer"/><instance id="atlas" submodel="Atlas"/>'
        f'<instance id="worker" submodel="Worker" multiplicity="{copies}" run:on-death="{settings}"/>',
        pool("w", "worker", share="queue") + pool("worker", "atlas").replace(".fields", ".maps"),
        {
            "Worker": '<in id="fields" datatype="field"/><out id="maps" datatype="field"/>',
            "Atlas": '<in id="maps" datatype="field"/>',
        },
    )


def steps_of(run: Run, copies: int) -> Counter[int]:
    """How often each object was dealt with."""
    lines = (line for copy in range(copies) for line in run.lines(f"worker[{copy}]"))
    return Counter(int(line.split()[0]) for line in lines)


def dead(run: Run) -> set[str]:
    return {name for name, row in run.report["instances"].items() if row["state"] == "died"}


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
@pytest.mark.parametrize("seed", range(3))
def test_whenever_workers_are_killed_every_object_is_dealt_with_and_reaches_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, seed: int
) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    model = farm(tmp_path / "model", 4, begin=KILLED, work="time.sleep(chance.uniform(0, 0.02))", seed=seed)
    run = run_document(model, folder=tmp_path / "run")
    found = steps_of(run, 4)
    assert found.keys() == set(range(JOBS))
    assert {int(step) for step in run.lines("atlas")} == found.keys(), "what was made of each has arrived"
    for name in dead(run):
        assert f"{name} died: it was killed by SIGKILL (Killed); the run went on without it" in run.stderr
        assert [event["reason"] for event in run.events() if event["what"] == "died" and event["instance"] == name]
        assert f"{name} died" in (run.folder / "report.html").read_text()
    if not dead(run):
        assert set(found.values()) == {1}


def test_where_nobody_dies_every_object_is_dealt_with_once(tmp_path: Path) -> None:
    run = run_document(farm(tmp_path / "model", 3), folder=tmp_path / "run")
    assert steps_of(run, 3) == Counter(range(JOBS))
    assert Counter(run.lines("atlas")) == Counter(map(str, range(JOBS)))


def test_what_a_worker_had_that_dies_is_marked_and_counted(tmp_path: Path) -> None:
    model = farm(tmp_path / "model", 3, work="die() if me.index == 1 else survive()")
    run = run_document(model, folder=tmp_path / "run")
    assert dead(run) == {"worker[1]"}
    again = [line for copy in (0, 2) for line in run.lines(f"worker[{copy}]") if line.endswith(" 1")]
    assert 0 < len(again) == run.report["instances"]["worker[1]"]["given_again"]
    count = len(again)
    assert f"; {count} object{'s were' if count > 1 else ' was'} given to others" in run.stderr


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
@pytest.mark.parametrize("seed", range(3))
def test_of_a_worker_that_is_killed_at_any_moment_readers_see_whole_groups_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, seed: int
) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    model = farm(tmp_path / "model", 3, begin=f"import numpy as np\n            {KILLED}", seed=seed)
    put = 'me.put("maps", job.data, step=job["step"])'
    group = """with me.group("maps") as record:
                    for part in range(4):
                        record.put(np.full(20_000, 10 * job.data + part), step=job["step"])
                        time.sleep(0.001)"""
    worker = tmp_path / "model" / "Worker.py"
    assert put in worker.read_text()
    worker.write_text(worker.read_text().replace(put, group))
    (tmp_path / "model" / "Atlas.py").write_text("""
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for first in me.objects("maps"):
            parts = [first, *(me.take("maps", timeout=0) for _ in range(3))]
            assert [each["sys.follow"] for each in parts] == [3, 2, 1, 0]
            assert len({(each["sys.index"], each["sys.group"]) for each in parts}) == 1
            assert all((each.data == 10 * first["step"] + part).all() for part, each in enumerate(parts))
            print(first["step"])
""")
    run = run_document(model, folder=tmp_path / "run")
    assert {int(step) for step in run.lines("atlas")} == set(range(JOBS))


def test_each_of_two_queues_gets_every_object_also_when_a_worker_of_one_dies(tmp_path: Path) -> None:
    worker = """
        import os, signal, time, xmml
        DEAD = os.path.join(os.environ["XMML_MODEL_DIR"], "dead")
        with xmml.Instance() as me:
            while me.reuse():
                for number, job in enumerate(me.objects("fields", timeout=60)):
                    if "mortal" in os.environ["XMML_INSTANCE"]:
                        if me.index == 1 and number == 3:
                            open(DEAD, "w").close()
                            os.kill(os.getpid(), signal.SIGKILL)
                        while me.index != 1 and not os.path.exists(DEAD):  # it would not get any if they did all
                            time.sleep(0.01)
                    print(job["step"], flush=True)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Worker": worker},
        '<instance id="w" submodel="Writer"/><instance id="other" submodel="Worker" multiplicity="3"/>'
        '<instance id="mortal" submodel="Worker" multiplicity="3" run:on-death="continue"/>',
        pool("w", "mortal", share="queue") + pool("w", "other", share="queue"),
    )
    run = run_document(model, folder=tmp_path / "run")
    assert dead(run) == {"mortal[1]"}
    done = {
        name: Counter(line for copy in range(3) for line in run.lines(f"{name}[{copy}]"))
        for name in ("mortal", "other")
    }
    assert done["other"] == Counter(map(str, range(JOBS)))
    assert done["mortal"].keys() == done["other"].keys()
    twice = done["mortal"].total() - JOBS
    assert twice < run.report["instances"]["mortal[1]"]["given_again"], "the fourth was not dealt with before"


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
def test_what_a_worker_has_put_outlives_it_also_while_its_reader_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    work = "count.append(job)\n                if len(count) == 3: die() if me.index else survive()"
    model = farm(tmp_path / "model", 2, begin="count = []", work=work)
    worker = tmp_path / "model" / "Worker.py"
    worker.write_text(worker.read_text().replace('"maps", job.data', '"maps", bytes(5_000_000 // (5 + job["step"]))'))
    atlas = tmp_path / "model" / "Atlas.py"
    atlas.write_text(atlas.read_text().replace("for each in", "import time; time.sleep(2)\n        for each in"))
    run = run_document(model, folder=tmp_path / "run")
    assert dead(run) == {"worker[1]"}
    assert {int(step) for step in run.lines("atlas")} == set(range(JOBS))


def test_a_worker_that_fails_with_an_exception_has_died_of_that(tmp_path: Path) -> None:
    model = farm(tmp_path / "model", 2, work="die(ValueError('bad luck')) if me.index else survive()")
    run = run_document(model, folder=tmp_path / "run")
    assert dead(run) == {"worker[1]"}
    assert "bad luck" in run.report["instances"]["worker[1]"]["death"]


def test_a_worker_that_cannot_begin_is_not_missed(tmp_path: Path) -> None:
    model = farm(tmp_path / "model", 2)
    program = tmp_path / "model" / "Worker.py"
    program.write_text(
        "import os, sys\nif os.environ['XMML_INSTANCE'].endswith('[1]'): sys.exit(3)\n" + program.read_text()
    )
    run = run_document(model, folder=tmp_path / "run")
    assert dead(run) == {"worker[1]"}
    assert steps_of(run, 2) == Counter(range(JOBS))


def test_the_death_of_the_last_worker_ends_the_run_and_is_named(tmp_path: Path) -> None:
    run = run_document(farm(tmp_path / "model", 2, work="die()"), folder=tmp_path / "run", status=4)
    assert "it was the last copy of worker that could go on (worker[" in run.stderr
    assert run.stderr.count("died before)") == 1


def test_an_object_that_kills_all_who_take_it_ends_the_run_and_is_named(tmp_path: Path) -> None:
    model = farm(tmp_path / "model", 6, work="if job['step'] == 13: die()\n                time.sleep(0.005)")
    run = run_document(model, folder=tmp_path / "run", status=4)
    assert (
        "object 13 (sys.seq) of w.fields was given to 4 instances, and each of them died, this one last" in run.stderr
    )
    assert len(dead(run)) == 3
    assert [row["state"] for row in run.report["instances"].values()].count("failed") == 1


def test_without_the_setting_a_worker_that_dies_ends_the_run(tmp_path: Path) -> None:
    model = farm(tmp_path / "model", 2, work="die() if me.index else survive()", settings="stop")
    run = run_document(model, folder=tmp_path / "run", status=4)
    assert "worker[1] failed: it was killed by SIGKILL" in run.stderr


def test_a_reader_that_may_lose_objects_and_dies_is_not_missed(tmp_path: Path) -> None:
    reader = """
        import os, signal, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number, each in enumerate(me.objects("fields")):
                    if number == 5:
                        os.kill(os.getpid(), signal.SIGKILL)
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Reader": reader, "Other": reader.replace("number == 5", "False")},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader" run:on-death="continue"/>'
        '<instance id="o" submodel="Other"/>',
        pool("w", "r", loss="allowed") + pool("w", "o"),
    )
    run = run_document(model, folder=tmp_path / "run", limit_s=60)
    assert dead(run) == {"r"}
