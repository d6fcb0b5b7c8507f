"""The builds of a plan: their order, and what of them people see."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_executors.builds import Builds
from xmml_planner import Build, Plan

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
