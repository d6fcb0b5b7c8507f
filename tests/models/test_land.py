"""Groundwater and land surface, each spread over ranks: the physics, and that nothing depends on how the fields lie."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from model_runs import environment, run_document
from needs import needs

import xmml

LAND = Path(__file__).parent.parent.parent / "workflows" / "land"

pytestmark = needs("mpicc", "mpirun", "gfortran")

#: What the ground says at its end.
BUDGET = re.compile(r"recharge (\S+) m3, to the stream (\S+) m3, stored (\S+) m3, missing (\S+) of it")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workflow with its programs."""
    folder = tmp_path_factory.mktemp("workflow") / "land"
    shutil.copytree(LAND, folder, ignore=shutil.ignore_patterns("build", "runs", "__pycache__"))
    subprocess.run(["make"], cwd=folder, env=environment(), check=True, capture_output=True)
    return folder


def edited(built: Path, folder: Path, document: str = "model.xmml", **changes: str) -> Path:
    """Copy the workflow, and change its model; return where that is.

    Args:
        changes: `ground`, `surface`: how the arrays of each are spread, "" for one rank that has all; `days` and `step`
            of the ground, `extent_x` and `extent_y` of the catchment [m].
    """
    shutil.copytree(built, folder)
    path = folder / document
    text = path.read_text(encoding="utf-8")
    for name, old, ranks in (("ground", "block(x:2,y:2)", 4), ("surface", "block(y:3)", 3)):
        if (new := changes.get(name)) is None:
            continue
        decomposition = f' run:decomp="{new}"' if new else ""
        number = int(np.prod([int(parts) for parts in re.findall(r":(\d+)", new)])) if new else 1
        text = text.replace(f' run:decomp="{old}"', decomposition).replace(f'run:mpi="{ranks}"', f'run:mpi="{number}"')
    text = text.replace('total="365 day"', f'total="{changes.get("days", "61")} day"')
    text = text.replace('delta="1 day" total', f'delta="{changes.get("step", "1")} day" total')
    text = text.replace('total="6000 m"', f'total="{changes.get("extent_x", "1500")} m"')
    text = text.replace('total="4500 m"', f'total="{changes.get("extent_y", "1000")} m"')
    path.write_text(text, encoding="utf-8")
    return path


def fields(run: Path) -> np.ndarray:
    """Return the depths that the archive keeps, in the order of their days."""
    archive = xmml.open_archive(run / "instances/archive/work/fields.archive")
    return np.array([depth.data for depth in sorted(archive.select("true"), key=lambda depth: depth["day"])])


def budget_of(run: Path) -> list[float]:
    found = BUDGET.search((run / "instances/ground/stdout").read_text(encoding="utf-8"))
    assert found, "the ground does not say its budget"
    return [float(number) for number in found.groups()]


def test_no_water_is_lost_and_the_maps_are_drawn(built: Path, tmp_path: Path) -> None:
    run = run_document(edited(built, tmp_path / "land", days="95")).folder
    recharge, to_stream, _, missing = budget_of(run)
    assert recharge > 0
    assert to_stream > 0
    assert missing < 1e-12
    assert "days 0, 91" in (run / "instances/maps/stdout").read_text(encoding="utf-8")
    assert (run / "instances/maps/work/maps.png").stat().st_size > 10_000


def test_the_fields_do_not_depend_on_how_they_are_spread(built: Path, tmp_path: Path) -> None:
    spread = run_document(edited(built, tmp_path / "spread")).folder
    otherwise = edited(built, tmp_path / "otherwise", ground="block(y:3)", surface="block(x:2)")
    alone = edited(built, tmp_path / "alone", ground="", surface="")
    expected = fields(run_document(alone).folder)
    assert expected.shape == (3, 30, 20)
    assert np.ptp(expected) > 0.01
    assert np.array_equal(fields(spread), expected)
    assert np.array_equal(fields(run_document(otherwise).folder), expected)


def test_messages_and_pools_bring_the_same_water_and_a_record_keeps_whole_fields_of_both(
    built: Path, tmp_path: Path
) -> None:
    pool = run_document(edited(built, tmp_path / "pool")).folder
    by_messages = edited(built, tmp_path / "messages", "direct.xmml")
    messages = run_document(by_messages, "--record", "ground.depths").folder
    assert budget_of(pool)[:3] == budget_of(messages)[:3]
    recorded = xmml.open_archive(messages / "instances/record/work/record.archive").select("sys.seq % 30 = 0")
    assert np.array_equal([depth.data for depth in recorded], fields(pool))


def test_under_steady_rain_the_water_table_becomes_the_ellipse_of_dupuit(built: Path, tmp_path: Path) -> None:
    """h^2 = h0^2 + q/K (2 L x - x^2), from the stream to the divide at L: the scheme is exact there."""
    model = edited(
        built,
        tmp_path / "land",
        days="24000",
        step="800",
        extent_x="500",
        extent_y="100",
        surface="",
        ground="block(x:4)",
    )
    text = (
        model.read_text(encoding="utf-8").replace('value="valley"', 'value="flat"').replace('value="0.8"', 'value="0"')
    )
    text = text.replace('id="evaporation" value="2 mm/day"', 'id="evaporation" value="0 mm/day"')
    model.write_text(text.replace("day % 30 = 0", "day = 29"), encoding="utf-8")
    depth = fields(run_document(model).folder)[-1]
    x = 50.0 * np.arange(10)
    ellipse = np.sqrt(10.0**2 + 0.002 / 86400 / 2e-4 * (2 * 475.0 * x - x**2))
    assert 1000 - depth[:, 0] == pytest.approx(ellipse, rel=1e-9)
    assert np.array_equal(depth[:, 0], depth[:, 1])
