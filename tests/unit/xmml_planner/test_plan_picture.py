"""What people see of a plan over sites: the table and the picture."""

from __future__ import annotations

import dataclasses
import re
from html import unescape
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from xmml_planner import Plan, summary
from xmml_planner.plan_figure import FORMATS, plan_picture
from xmml_planner.several_sites import plan_over_sites
from xmml_planner.sites import read_sites

from xmml.check import check

ROOT = Path(__file__).parents[3]
ARTERY = ROOT / "docs" / "examples" / "artery"


@pytest.fixture(scope="module")
def artery() -> Plan:
    """The plan of the documentation."""
    model = check(ARTERY / "model.xmml").model_or_raise()
    return plan_over_sites(model, read_sites(ARTERY / "sites.toml"), wishes={"plot": "laptop"})


def words_of(picture: str) -> set[str]:
    """The texts of a drawing."""
    return {unescape(text).strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", picture)}


def test_the_table_tells_sites_jobs_times_cost_and_ways(artery: Plan) -> None:
    lines = summary(artery).splitlines()
    assert lines[1] == "expected to end 3.195 hr after the launch; it is proven that no placement ends sooner"
    assert lines[2] == "expected to cost 2.747"
    job = next(line for line in lines if line.startswith("  alpha "))
    assert re.sub(r" +", " ", job) == (
        " alpha alpha (slurm) group-2 2 24 32 GB - 15.36 min 3.089 hr 4.417 hr 2.72 (after beta)"
    )
    assert "    node 0: flow (16 ranks), spread, collect, cells (6 of 12)" in lines
    assert "    node 1: flow (16 ranks), cells (6 of 12)" in lines
    route = next(line for line in lines if line.startswith("  mesh.grid -> flow.grid   ") and "relay" in line)
    assert re.sub(r" +", " ", route) == " mesh.grid -> flow.grid beta - alpha relay 8 ms 125 MB/s 1 200 MB"
    assert any(line.strip() == "beta        dials alpha at login.alpha.example.org:40001" for line in lines)


def test_the_picture_has_sites_jobs_instances_and_what_goes_between(artery: Plan) -> None:
    words = words_of(plan_picture(artery, "svg").decode())
    assert {"artery", "laptop", "alpha", "beta", "mesh", "plot"} <= words
    assert {"node 0", "node 1", "flow (16 ranks)", "cells (6 of 12)"} <= words
    assert "1 conduit · relay · 8 ms · 125 MB/s · 200 MB in all" in words
    assert "48 cores on 2 nodes" in words


def test_the_lines_between_sites_are_apart(artery: Plan) -> None:
    one = artery.routes[0]
    ends = [{route.sites[0], route.sites[-1]} for route in artery.routes]
    assert {"laptop", "alpha"} in ends
    assert {"alpha", "beta"} in ends
    across = dataclasses.replace(one, sites=("laptop", "alpha", "beta"))
    drawn = lines_in(plan_picture(dataclasses.replace(artery, routes=(*artery.routes, across)), "svg").decode())
    assert len(drawn) == 3
    for line, other in combinations(drawn, 2):
        assert not [(a, b) for a in segments(line) for b in segments(other) if meet(a, b)]


Point = tuple[float, float]


def lines_in(picture: str) -> list[list[Point]]:
    """The lines between sites: down from one, along, up to the other."""
    paths = [re.findall(r"[ML] (\S+) (\S+)", path) for path in re.findall(r'<path d="([^"]*)"[^>]*fill: none', picture)]
    return [
        [(float(x), float(y)) for x, y in path]
        for path in paths
        if len(path) == 4 and path[0][1] == path[3][1] and path[1][1] == path[2][1]
    ]


def segments(line: list[Point]) -> list[tuple[Point, Point]]:
    return list(pairwise(line))


def meet(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    """Whether two segments, each along an axis, have a point in common."""
    return all(
        max(min(a[axis] for a in one), min(b[axis] for b in other))
        <= min(max(a[axis] for a in one), max(b[axis] for b in other))
        for axis in (0, 1)
    )


def test_the_documented_picture_is_that_of_the_example(artery: Plan) -> None:
    drawn = (ROOT / "docs" / "pictures" / "artery-plan.svg").read_text(encoding="utf-8")
    assert words_of(drawn) == words_of(plan_picture(artery, "svg").decode()), "draw it again: make pictures"


@pytest.mark.parametrize(("form", "begin"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_plan_gives_the_same_picture(artery: Plan, form: str, begin: bytes) -> None:
    chosen = FORMATS[FORMATS.index(form)]  # type: ignore[arg-type]
    picture = plan_picture(artery, chosen)
    assert picture.startswith(begin)
    assert picture == plan_picture(artery, chosen)
