"""The builds of a plan: their order, and what of them people see."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_executors.builds import Builds, missing_after_builds
from xmml_planner import Build, Plan, plan

from xmml.check import check

LOG = Path("builds/1.log")


@pytest.fixture
def builds() -> Builds:
    made = tuple(Build(f"make {name}", "/", (name,), "m.xmml:1:1") for name in "ab")
    return Builds(Plan("m", "/m.xmml", "/", (), made, (), ()))


def test_one_build_follows_the_other(builds: Builds) -> None:
    assert builds.command()[-1] == "make a"
    builds.on_ended(0, LOG)
    assert builds.command()[-1] == "make b"
    builds.on_ended(0, LOG)
    assert builds.current is None


def test_what_a_build_wrote_that_is_over_is_not_shown_with_the_next(builds: Builds) -> None:
    builds.on_output("make: 'a' is up to date.", "stdout")
    builds.on_ended(0, LOG)
    builds.on_output("c++ b.cpp", "stdout")
    assert builds.show() == [("stdout", "c++ b.cpp")]


def test_a_line_is_shown_once(builds: Builds) -> None:
    builds.on_output("c++ a.cpp", "stdout")
    assert builds.show() == [("stdout", "c++ a.cpp")]
    assert builds.show() == []


def test_all_that_a_failed_build_wrote_can_be_shown(builds: Builds) -> None:
    builds.on_output("c++ a.cpp", "stdout")
    builds.on_output("a.cpp:1:1: error: no such file", "stderr")
    builds.on_ended(1, LOG)
    assert builds.failure is not None
    assert "a.cpp:1:1: error" in builds.failure.reason
    assert [line for _, line in builds.show()] == ["c++ a.cpp", "a.cpp:1:1: error: no such file"]


def test_of_a_program_that_no_build_made_the_similar_one_that_it_made_is_named(tmp_path: Path) -> None:
    document = tmp_path / "model.xmml"
    document.write_text(
        '<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        '<definitions><submodel id="X"><timescale delta="1 s" total="2 s"/><ports><out id="o" operator="Oi"/></ports>'
        '<implementation language="c" path="heatr" run:build="make heater"/></submodel></definitions>'
        '<topology><instance id="x" submodel="X"/></topology></model>'
    )
    (tmp_path / "heater").write_text("")
    missing = missing_after_builds(plan(check(document).model_or_raise()))
    assert missing is not None
    assert missing.reason.endswith('/heatr" does not exist; did you mean "heater"?')
