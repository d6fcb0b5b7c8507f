"""What `xmml analyse` prints for people, and its JSON against the schema."""

from __future__ import annotations

import json
from dataclasses import replace

import xmml_schema
from jsonschema import Draft202012Validator
from xmml_run.analysis_report import report

from xmml.analysis.analysis import Analysis, BlockedAt, GraphSize, Job, PathSegment, Times, Traffic

TIMES = Times(
    makespan_s=5000.0,
    makespan_at_most_s=5000.0,
    is_exact=True,
    critical_path=(PathSegment("bf", "run", 10, 5000.0),),
    cycle_time_s=500.0,
    busy_s={"smc": 0.0, "bf": 5000.0},
    idle_s={"smc": 5000.0, "bf": 0.0},
    core_hours=1422.2,
    parallelism=1.0,
    unknown=("smc",),
)
FINE = Analysis(
    model="stent",
    start="spontaneous",
    verdict="finished",
    witness="",
    conflicts=(),
    initial=("smc",),
    steps={"smc": 10, "bf": 1},
    runs={"smc": 1, "bf": 10},
    messages={
        "smc.cells -> bf.cells": Traffic("call", 10, 10, 2, 1, 800_000),
        "bf.stress -> smc.stress": Traffic("release", 10, 10, 2, 1, None),
    },
    at_most=(),
    blocked=(),
    deadlock=(),
    unconsumed={},
    never_start=(),
    domains={"smc": "artery.tissue", "bf": None},
    times=TIMES,
    jobs=(Job(("smc", "bf"), (("smc", "bf"),), 0.0, 1024),),
    task_graph={"collapsed": GraphSize(21, 20, 10, 0)},
)
STUCK = replace(
    FINE,
    verdict="deadlock",
    witness="a waits for b, and b for a",
    blocked=(BlockedAt("a", 0, 2, "S", ("b.o -> a.i",)),),
    deadlock=(("a", "b"),),
    unconsumed={"smc.cells -> bf.cells": 3},
    times=None,
)


def test_the_head_says_how_the_model_ends() -> None:
    assert report(FINE).splitlines()[0] == "stent: 2 instances, 2 couplings; every instance finishes"
    assert "it deadlocks" in report(STUCK).splitlines()[0]


def test_a_deadlock_is_told_in_words() -> None:
    assert "a waits for b, and b for a" in report(STUCK)
    assert "smc.cells -> bf.cells: 3 messages never taken, of 10" in report(STUCK)


def test_couplings_stand_in_a_table() -> None:
    lines = report(FINE).splitlines()
    row = next(line for line in lines if line.startswith("smc.cells"))
    assert row.split() == ["smc.cells", "->", "bf.cells", "call", "10", "800", "kB", "2", "1"]


def test_the_run_time_names_what_nobody_knows() -> None:
    text = report(FINE)
    assert "run time: 1 h 23 min" in text
    assert "counted as 0, because nobody gives their run time: smc" in text


def test_a_bound_is_not_printed_as_a_value() -> None:
    text = report(replace(FINE, times=replace(TIMES, is_exact=False, makespan_at_most_s=7200.0)))
    assert "run time: at least 1 h 23 min, at most 2 h" in text


def test_a_large_model_is_cut_and_says_so() -> None:
    many = {f"a{number}.o -> b{number}.i": Traffic("call", 1, 1, 2, 1, None) for number in range(100)}
    assert "... and 60 more (--all shows them)" in report(replace(FINE, messages=many))
    assert "a99.o -> b99.i" in report(replace(FINE, messages=many), most_rows=None)


def test_the_json_keeps_to_its_schema() -> None:
    schema = json.loads(xmml_schema.ANALYSIS.read_text())
    Draft202012Validator.check_schema(schema)
    for analysis in (FINE, STUCK):
        Draft202012Validator(schema).validate(json.loads(json.dumps(analysis.as_json())))
