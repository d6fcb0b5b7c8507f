"""Pools: objects with attributes, put by any number of writers and chosen by their readers, in whole runs."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from model_runs import Run, RunModel, run_document
from pool_models import ATTRIBUTES, model_of, pool

HERE = Path(__file__).parent

WRITER = """
import numpy as np, xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            for param in "tuv":
                field = np.full((100, 60), t + me.index)
                me.put("fields", field, step=int(t), param=param, share=t / 4)
"""
READER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            assert field.data.shape == (100, 60) and (field.data == field["step"] + field["sys.index"]).all()
            print(field["sys.index"], field["step"], field["param"])
"""


def taken(run: Run, name: str) -> list[tuple[int, int, str]]:
    """Return writer, step and parameter of what a reader took, sorted."""
    return sorted((int(index), int(step), param) for index, step, param in map(str.split, run.lines(name)))


@pytest.mark.parametrize("method", ["inproc", "shm", "unix", "tcp"])
def test_each_copy_of_a_reader_gets_from_all_writers_what_it_selects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    if method != "inproc":
        monkeypatch.setenv("XMML_METHODS", method)
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Reader": READER},
        '<instance id="w" submodel="Writer" multiplicity="2"/><instance id="pair" submodel="Reader" multiplicity="2"/>'
        '<instance id="some" submodel="Reader"/><instance id="all" submodel="Reader"/>',
        pool("w", "pair", "sys.index = $index and param = 'u'")
        + pool("w", "some", "step % $every = 0 and share < 0.5 or param = 'v'")
        + pool("w", "all"),
    )
    run = run_document(model, folder=tmp_path / "run")
    everything = [(index, step, param) for index in (0, 1) for step in range(4) for param in "tuv"]
    assert taken(run, "all") == everything
    assert taken(run, "some") == [each for each in everything if each[1] == 0 or each[2] == "v"]
    for index in (0, 1):
        assert taken(run, f"pair[{index}]") == [each for each in everything if each[0] == index and each[2] == "u"]


def test_random_objects_reach_exactly_those_whose_selectors_python_finds_true(tmp_path: Path) -> None:
    writer = """
        import random, xmml
        chance = random.Random(7)
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(400):
                    values = {"step": chance.randrange(20)}
                    if chance.random() < 0.7:
                        values["param"] = chance.choice("tuv")
                    if chance.random() < 0.7:
                        values["share"] = chance.choice([0, 0.25, 0.5])
                    me.put("fields", values, **values)
    """
    selects = {
        "a": ("step in 3..15 step 4 or param = 't'", "3 <= s <= 15 and (s - 3) % 4 == 0 or p == 't'"),
        "b": ("not share >= 0.25 and step != 7", "not (h is not None and h >= 0.25) and s != 7"),
        "c": (
            "has(share) and param in ('u', 'v') and step * 2 % 3 = 1",
            "h is not None and p in ('u', 'v') and s * 2 % 3 == 1",
        ),
    }
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for found in me.objects("fields"):
                    own = {name: value for name, value in found.attributes.items() if not name.startswith("sys.")}
                    assert own == found.data, (own, found.data)
                    print(found["sys.seq"], found["step"], found.get("param"), found.get("share"))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="all" submodel="Reader"/>'
        + "".join(f'<instance id="{name}" submodel="Reader"/>' for name in selects),
        pool("w", "all") + "".join(pool("w", name, select) for name, (select, _) in selects.items()),
    )
    run = run_document(model, folder=tmp_path / "run")
    objects = run.lines("all")
    assert [int(line.split()[0]) for line in objects] == list(range(400))
    for name, (_, condition) in selects.items():
        expected = []
        for line in objects:
            _, s, p, h = line.split()
            known = {"s": int(s), "p": None if p == "None" else p, "h": None if h == "None" else float(h)}
            if eval(condition, known):
                expected.append(line)
        assert run.lines(name) == expected
        assert 0 < len(expected) < 400


def test_copies_of_a_writer_tell_their_objects_apart_and_a_reader_puts_the_records_together(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for step in range(10):
                    with me.group("fields", step=step) as record:
                        for param in "tuv":
                            record.put(1000 * me.index + 10 * step + ord(param), param=param)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                records, known = {}, set()
                for each in me.objects("fields"):
                    known.add((each["sys.instance"], each["sys.index"], each["sys.port"], each["sys.seq"]))
                    records.setdefault((each["sys.index"], each["sys.group"]), {})[each["param"]] = each.data
                print(len(known))
                for index, group in sorted(records):
                    print(index, group, *sorted(records[index, group].values()))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer" multiplicity="4"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", "sys.index != 2 or sys.group < 5 or sys.seq = 29"),
    )
    count, *records = run_document(model, folder=tmp_path / "run").lines("r")
    chosen = [(index, group) for index in range(4) for group in range(10) if index != 2 or group < 5]
    values = {(index, group): [1000 * index + 10 * group + ord(param) for param in "tuv"] for index, group in chosen}
    whole = [" ".join(map(str, [*place, *values[place]])) for place in chosen]
    assert sorted(records) == sorted([*whole, f"2 9 {2090 + ord('v')}"])
    assert count == "106"


def test_names_in_a_hierarchy_are_texts_that_selectors_match(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for step in range(2):
                    with me.group("fields", step=step) as record:
                        for path in ("hydro/flow/x", "hydro/flow/y", "hydro/level", "heat/flow/x"):
                            record.put(path, path=path)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(*(f"{each['step']}:{each['path']}" for each in me.objects("fields")))
    """
    selects = {"hydro": "path like 'hydro/*'", "x": "step = 1 and path like '*/flow/?'", "one": "path = 'hydro/level'"}
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/>'
        + "".join(f'<instance id="{name}" submodel="Reader"/>' for name in selects),
        "".join(pool("w", name, select) for name, select in selects.items()),
    )
    model.write_text(model.read_text().replace(ATTRIBUTES, "step:int path:str!"))
    run = run_document(model, folder=tmp_path / "run")
    hydro = ["hydro/flow/x", "hydro/flow/y", "hydro/level"]
    assert run.output("hydro").split() == [f"{step}:{path}" for step in (0, 1) for path in hydro]
    assert run.output("x").split() == ["1:hydro/flow/x", "1:hydro/flow/y", "1:heat/flow/x"]
    assert run.output("one").split() == ["0:hydro/level", "1:hydro/level"]


def test_objects_wait_for_a_reader_that_joins_after_all_of_them_were_put(tmp_path: Path) -> None:
    writer = """
        import os, pathlib, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(50):
                    me.put("fields", number, step=number)
                pathlib.Path(os.environ["XMML_MODEL_DIR"], "put").touch()
    """
    reader = """
        import os, pathlib, time, xmml
        while not pathlib.Path(os.environ["XMML_MODEL_DIR"], "put").exists():
            time.sleep(0.01)
        with xmml.Instance() as me:
            while me.reuse():
                print(*(each.data for each in me.objects("fields")))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    assert run_document(model, folder=tmp_path / "run").output("r").split() == [str(number) for number in range(50)]


def test_runs_of_a_model_at_the_same_time_do_not_mix_their_objects(tmp_path: Path) -> None:
    writer = """
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(50):
                    me.put("fields", me.param("every"), step=number)
                    time.sleep(0.005)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(*(f"{each['step']}:{each.data}" for each in me.objects("fields")))
    """
    model = model_of(
        tmp_path,
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )

    def taken_in_run(every: int) -> list[str]:
        run = run_document(model, "-p", f"w.every={every}", folder=tmp_path / f"run{every}")
        return run.output("r").split()

    with ThreadPoolExecutor(4) as runs:
        found = list(runs.map(taken_in_run, range(4)))
    assert found == [[f"{number}:{every}" for number in range(50)] for every in range(4)]


def test_class_based_submodels_of_one_process_put_and_take(tmp_path: Path) -> None:
    writer = """
        import xmml
        class Writer(xmml.Submodel):
            def O_i(self):
                self.me.put("fields", self.t, step=int(self.t))
    """
    reader = """
        import xmml
        class Reader(xmml.Submodel):
            def O_f(self):
                print([field.data for field in self.me.objects("fields")])
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", "step > 0"),
    )
    text = model.read_text()
    for name in ("Writer", "Reader"):
        text = text.replace(f'<submodel id="{name}"', f'<submodel id="{name}" class="{name}:{name}"')
    model.write_text(text)
    assert run_document(model, folder=tmp_path / "run").lines("r") == ["[1.0, 2.0, 3.0]"]


def test_programs_in_c_cpp_and_python_put_and_take_each_others_objects(run_model: RunModel) -> None:
    run = run_model(HERE / "pools")
    assert taken(run, "c_reader") == sorted([(0, 3, "u"), *((1, step, param) for step in (1, 3) for param in "tuv")])
    assert taken(run, "python_reader") == [(0, 2, "u"), (0, 3, "u")]
    assert taken(run, "later_reader") == [(0, 30, "v"), (0, 31, "v")]
    assert run.lines("cpp") == ["1", "1"]
    *readers, refused = run.lines("c_writer")
    assert readers == ["0", "0", "1", "2"]
    assert "c_writer.fields: param: 'w' is not allowed: it is enum(t,u,v)" in refused


def test_an_object_of_a_group_has_the_time_at_which_it_was_put(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                with me.group("fields") as record:
                    for t in me.steps():
                        record.put(t, step=int(t))
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for field in me.objects("fields"):
                    print(field["step"], field["sys.t"])
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", "sys.t > 1"),
    )
    assert run_document(model, folder=tmp_path / "run").lines("r") == ["2 2.0", "3 3.0"]


def test_the_objects_of_a_group_come_together_and_those_of_one_that_failed_never(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                fields = me.out("fields")
                for step in range(3):
                    with fields.group(step=step) as record:
                        for param in "tuv":
                            record.put(step * 10 + ord(param), param=param)
                try:
                    with me.group("fields", step=3) as record:
                        record.put(0, param="t")
                        raise ValueError
                except ValueError:
                    me.put("fields", 1, step=4)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for field in me.objects("fields"):
                    print(field["step"], field.get("param"), field.get("sys.group"), field.get("sys.follow"))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", "not param = 'u'"),
    )
    assert run_document(model, folder=tmp_path / "run").lines("r") == [
        *(f"{step} {param} {step} {follow}" for step in range(3) for param, follow in (("t", 1), ("v", 0))),
        "4 None None None",
    ]


def test_an_attribute_that_is_not_allowed_fails_the_run_by_name(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.put("fields", 1, step=1, param="w")
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": READER},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    run = run_document(model, folder=tmp_path / "run", status=4)
    assert "w.fields: param = 'w' is not allowed: it is enum(t,u,v)" in run.stderr


def test_two_that_take_before_they_put_are_in_a_deadlock(tmp_path: Path) -> None:
    program = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.take("into")
                me.put("fields", 1, step=1)
    """
    ports = '<out id="fields" datatype="field"/><in id="into" datatype="field"/>'
    model = model_of(
        tmp_path / "model",
        {"Both": program},
        '<instance id="a" submodel="Both"/><instance id="b" submodel="Both"/>',
        pool("a", "b").replace("b.fields", "b.into") + pool("b", "a").replace("a.fields", "a.into"),
        {"Both": ports},
    )
    run = run_document(model, folder=tmp_path / "run", status=6)
    assert "a waits at into for the first object of b.fields" in run.stderr
    assert "b waits at into for the first object of a.fields" in run.stderr


def test_a_limit_that_stops_a_run_grows(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for t in me.steps():
                    for number in range(5):
                        me.put("fields", bytes(1_000_000), step=number)
                    me.send("done", t)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for t in me.steps():
                    me.receive("done")
                    print(*(me.take("fields")["step"] for number in range(5)))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", limit="2.5 MB") + '<coupling from="w.done" to="r.done"/>',
        {
            "Writer": '<out id="fields" datatype="field"/><out id="done" operator="Oi"/>',
            "Reader": '<in id="fields" datatype="field"/><in id="done" operator="S"/>',
        },
    )
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("r") == ["0 1 2 3 4"] * 4
    assert (
        "w.fields -> r.fields was too small for this model and grew to 5,000,000 bytes; run:limit sets it" in run.stderr
    )


def test_a_reader_that_leaves_early_says_what_it_left_behind(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(30):
                    me.put("fields", number, step=number)
    """
    reader = """
        import json, pathlib, time, xmml
        events = pathlib.Path("../../../events.jsonl")
        def has_left(line):
            event = json.loads(line)
            return event["what"] == "left" and event["instance"] == "w"
        with xmml.Instance() as me:
            while me.reuse():
                while not any(map(has_left, events.read_text().splitlines())):
                    time.sleep(0.01)
                print([me.take("fields")["step"] for number in range(10)])
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("r") == [str(list(range(10)))]
    told = "it left without 20 objects that were put for it on w.fields -> r.fields; it should take until there are "
    assert told in run.stderr


def test_a_writer_says_what_a_reader_that_has_left_did_not_take(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                number = 0
                while me.put("fields", number, step=number):
                    number += 1
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.take("fields")
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    run = run_document(model, folder=tmp_path / "run")
    assert re.search(r"of its objects on w\.fields -> r\.fields were not received: the receiver had left", run.stderr)


def test_inline_code_puts_and_takes(tmp_path: Path) -> None:
    model = model_of(
        tmp_path / "model",
        {"Writer": "me.put()", "Reader": ""},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r", "step > 1"),
    )
    text = model.read_text()
    for name, part, code in (
        ("Writer", "Oi", "me.put('fields', t, step=step)"),
        ("Reader", "Of", "print([each.data for each in me.objects('fields')])"),
    ):
        program = f'<implementation language="python" path="{name}.py"/>'
        inline = f'<implementation><code language="python" part="{part}">{code}</code></implementation>'
        assert program in text
        text = text.replace(program, inline)
    model.write_text(text)
    assert run_document(model, folder=tmp_path / "run").lines("r") == ["[2.0, 3.0]"]


def test_python_values_of_all_types_are_attributes(tmp_path: Path) -> None:
    writer = """
        import datetime, numpy as np, xmml
        with xmml.Instance() as me:
            while me.reuse():
                values = {
                    "b": np.bool_(True), "i": np.int32(-3), "u": 2**64 - 1, "r": np.float32(0.5),
                    "s": "text", "x": bytearray(b"raw"),
                    "t": np.datetime64("2026-11-27T12:30"), "is_": [1, 2], "rs": np.array([0.5, 1.0]), "nothing": None,
                }
                me.put("fields", **values)
                zone = datetime.timezone(datetime.timedelta(hours=1))
                me.put("fields", t=datetime.datetime(2026, 11, 27, 13, tzinfo=zone))
                refused = {"t": "20000-01-01", "x": bytes(70_000), "i": 1.5, "u": 2**64, "s": {}, "z": 1}
                for name, value in refused.items():
                    try:
                        me.put("fields", **{name: value})
                    except (xmml.Error, TypeError, ValueError) as error:
                        print(error)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                first, second = me.objects("fields")
                print({name: first[name] for name in first if not name.startswith("sys.")})
                print(second["t"].isoformat(), "b" in second, second.get("nothing"))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    declared = "b:bool i:int u:uint r:real s:str x:bytes t:time is_:int[] rs:real[] nothing:int"
    model.write_text(model.read_text().replace(ATTRIBUTES, declared))
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("r") == [
        "{'b': True, 'i': -3, 'u': 18446744073709551615, 'r': 0.5, 's': 'text', 'x': b'raw', "
        "'t': datetime.datetime(2026, 11, 27, 12, 30, tzinfo=datetime.timezone.utc), 'is_': [1, 2], 'rs': [0.5, 1.0]}",
        "2026-11-27T12:00:00+00:00 False None",
    ]
    assert run.lines("w") == [
        "w.fields: t = 20000-01-01 is not allowed: it is time",
        "x: 70000 bytes, and the attributes of an object may have 65536",
        "w.fields: i = 1.5 is not allowed: it is int",
        "u = 18446744073709551616 is larger than any int or uint",
        "s: an attribute cannot be a dict",
        "w.fields: there is no attribute 'z'",
    ]


def test_a_writer_that_dies_fails_the_run_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    writer = """
        import os, signal, xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.put("fields", 1, step=1)
                os.kill(os.getpid(), signal.SIGKILL)
    """
    reader = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                print(len(list(me.objects("fields"))))
    """
    model = model_of(
        tmp_path / "model",
        {"Writer": writer, "Reader": reader},
        '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>',
        pool("w", "r"),
    )
    run = run_document(model, folder=tmp_path / "run", status=4)
    assert run.lines("r") == []
    assert "w failed" in run.stderr
    assert "SIGKILL" in run.stderr


@pytest.mark.parametrize("who", ["writer", "reader"])
def test_a_death_ends_the_run_which_names_it(tmp_path: Path, who: str) -> None:
    die = """
                    if each == 20:
                        os.kill(os.getpid(), signal.SIGKILL)
    """
    loops = {
        "writer": """
                for each in range(10_000_000):
                    me.put("fields", bytes(100_000), step=each)""",
        "reader": """
                for each, _ in enumerate(me.objects("fields")):
                    pass""",
    }
    begin = """
        import os, signal, xmml
        with xmml.Instance() as me:
            while me.reuse():"""
    programs = {name.title(): begin + loop + (die if name == who else "") for name, loop in loops.items()}
    model = model_of(
        tmp_path / "model",
        programs,
        '<instance id="writer" submodel="Writer"/><instance id="reader" submodel="Reader"/>',
        pool("writer", "reader"),
    )
    run = run_document(model, folder=tmp_path / "run", status=4)
    assert f"{who} failed: it was killed by SIGKILL" in run.stderr


@pytest.mark.parametrize("others", ["every object", "no object"])
def test_a_reader_whose_selector_never_matches_is_told(tmp_path: Path, others: str) -> None:
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER, "Reader": READER},
        '<instance id="w" submodel="Writer" multiplicity="2"/><instance id="r" submodel="Reader" multiplicity="2"/>'
        '<instance id="some" submodel="Reader"/><instance id="all" submodel="Reader"/>',
        pool("w", "r", "step >= 970")
        + pool("w", "some", "step = 0")
        + (pool("w", "all") if others == "every object" else pool("w", "all", "step = 1")),
    )
    run = run_document(model, folder=tmp_path / "run")
    if others == "every object":
        told = 'r received none of the 24 objects of w.fields (run:select="step >= 970")'
    else:
        told = 'r received no object of w.fields: none that was put satisfies run:select="step >= 970"'
    assert told in run.stderr
    assert run.stderr.count("received no") == 1
