"""Payloads of the objects of pools, in whole runs: what travels, how large it is, how fast, and who may change it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_runs import Run, run_document
from pool_models import model_of, pool

INSTANCES = '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>'


@pytest.fixture(params=["shm", "unix", "tcp"], autouse=True)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only method by which conduits may go."""
    monkeypatch.setenv("XMML_METHODS", request.param)
    return str(request.param)


def run_of(folder: Path, writer: str, reader: str, select: str = "true", **settings: str) -> Run:
    """Run a model of a writer and a reader."""
    model = model_of(folder, {"Writer": writer, "Reader": reader}, INSTANCES, pool("w", "r", select, **settings))
    return run_document(model)


def test_what_no_reader_chooses_does_not_travel(tmp_path: Path) -> None:
    writer = """
        import numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(*(me.put("fields", np.full(100_000, step), step=step) for step in range(20)))
                (row,) = me.methods("fields")
                print(row["messages"], row["bytes"])
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(*(each["step"] for each in me.objects("fields")))
    """
    run = run_of(tmp_path, writer, reader, "step % 10 = 7")
    choosing, passed = run.lines("w")
    assert choosing.split() == [str(int(step % 10 == 7)) for step in range(20)]
    messages, size = map(int, passed.split())
    assert messages == 2
    assert 1_600_000 <= size < 1_602_000, "two payloads, their attributes, and nothing of the other eighteen"
    assert run.lines("r") == ["7 17"]


def test_a_reader_gets_objects_of_any_size_and_need_not_know_it(tmp_path: Path) -> None:
    sizes = [0, 1, 823_296, 100, 64 << 20, 0, 4096, 16 << 20]
    writer = f"""
        import numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number, size in enumerate({sizes}):
                    me.put("fields", np.arange(size, dtype="uint8"), step=number)
    """
    reader = """
        import numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for each in me.objects("fields"):
                    assert (each.data == np.arange(each.data.size, dtype="uint8")).all()
                    print(each.data.size, each["sys.size"])
    """
    assert run_of(tmp_path, writer, reader).lines("r") == [f"{size} {size}" for size in sizes]


def test_more_objects_than_memory_holds_pass_in_bounded_memory(tmp_path: Path) -> None:
    memory = """
        import resource, numpy as np, xmml
        def memory_mb():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    """
    writer = f"""{memory}
        with xmml.Instance() as me:
            while me.reuse():
                before = memory_mb()
                for number in range(300):
                    me.put("fields", np.full(250_000, number), step=number)
                print(memory_mb() - before)
    """
    reader = f"""{memory}
        with xmml.Instance() as me:
            while me.reuse():
                before = memory_mb()
                for number, each in enumerate(me.objects("fields")):
                    assert (each.data == number).all()
                print(memory_mb() - before)
                print(number)
    """
    run = run_of(tmp_path, writer, reader, limit="16 MB")
    taken_mb, last = run.lines("r")
    assert last == "299"
    assert float(run.lines("w")[0]) < 100, "of 600 MB"
    assert float(taken_mb) < 100


def test_an_object_stays_as_it_was_put_whatever_its_writer_and_another_reader_do(tmp_path: Path) -> None:
    writer = """
        import numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                field = np.empty(100_000)
                for step in range(20):
                    field[:] = step
                    me.put("fields", field, step=step)
                    field[:] = -1
    """
    vandal = """
        import os, pathlib, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for each in me.objects("fields"):
                    try:
                        each.data[:] = -2
                    except ValueError:
                        pass  # it cannot be written to
        pathlib.Path(os.environ["XMML_MODEL_DIR"], "written").touch()
    """
    reader = """
        import os, pathlib, time, xmml
        written = pathlib.Path(os.environ["XMML_MODEL_DIR"], "written")
        with xmml.Instance() as me:
            while me.reuse():
                fields = list(me.objects("fields"))
                while not written.exists():
                    time.sleep(0.01)
                print(sum(bool((each.data == each["step"]).all()) for each in fields))
    """
    model = model_of(
        tmp_path,
        {"Writer": writer, "Vandal": vandal, "Reader": reader},
        f'{INSTANCES}<instance id="v" submodel="Vandal"/>',
        pool("w", "v") + pool("w", "r"),
    )
    assert run_document(model).lines("r") == ["20"]


def test_an_array_that_was_handed_over_can_be_neither_changed_nor_put_again(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                field = me.empty(100_000)
                field[:] = 7
                me.put("fields", field, step=1)
                try:
                    field[:] = 8
                except ValueError as error:
                    print(error)
                try:
                    me.put("fields", field, step=2)
                except xmml.Error as error:
                    print(error)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for each in me.objects("fields"):
                    print(each["step"], (each.data == 7).all())
    """
    run = run_of(tmp_path, writer, reader)
    changed, put_again = run.lines("w")
    assert "read-only" in changed
    assert put_again.startswith("w: this array was handed over")
    assert run.lines("r") == ["1 True"]


def test_a_hundred_thousand_objects_pass(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(100_000):
                    me.put("fields", number, step=number, param="t")
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(sum(each.data == each["step"] for each in me.objects("fields")))
    """
    assert run_of(tmp_path, writer, reader).lines("r") == ["100000"]


def test_both_ends_tell_how_many_objects_and_bytes_pass_and_how_fast(tmp_path: Path, method: str) -> None:
    writer = """
        import json, numpy as np, time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.take("go")
                me.methods("fields")
                for step in range(100):
                    me.put("fields", np.zeros(1000), step=step)
                    time.sleep(0.004)
                print(json.dumps(me.methods("fields")))
    """
    reader = """
        import json, xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.methods("fields")
                me.put("go", step=0)
                for each in me.objects("fields"):
                    pass
                print(json.dumps(me.methods("fields")))
    """
    model = model_of(
        tmp_path,
        {"Writer": writer, "Reader": reader},
        INSTANCES,
        pool("w", "r") + pool("r", "w").replace(".fields", ".go"),
        {
            "Writer": '<out id="fields" datatype="field"/><in id="go" datatype="field"/>',
            "Reader": '<in id="fields" datatype="field"/><out id="go" datatype="field"/>',
        },
    )
    run = run_document(model)
    ((put,), (taken,)) = (json.loads(run.output(name)) for name in ("w", "r"))
    for row in (put, taken):
        assert (row["name"], row["chosen"], row["messages"]) == ("w.fields -> r.fields", method, 100)
        assert 800_000 < row["bytes"] < 830_000
        # There are at least 4 ms between two.
        assert 0 < row["messages_per_s"] < 250
        assert 0 < row["bytes_per_s"] < 2_100_000
    assert put["latency_s"] > 0
