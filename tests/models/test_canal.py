"""The canal model: its equations by themselves, and the coupled network against the same network in one program."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from model_runs import RunModel

CANAL = Path(__file__).parent.parent.parent / "workflows" / "canal"

SECTIONS = ["head", "middle", "north1", "north2", "south1", "south2", "tail"]

Solve = Callable[[str], Mapping[str, np.ndarray]]


@pytest.fixture(scope="module")
def solve(tmp_path_factory: pytest.TempPathFactory) -> Solve:
    """The solver in one program: a network in the words of whole.cpp -> the history of each section."""
    folder = tmp_path_factory.mktemp("whole")
    for file in ("Makefile", "whole.cpp", "canal.hpp"):
        (folder / file).write_bytes((CANAL / file).read_bytes())
    subprocess.run(["make", "build/whole"], cwd=folder, check=True, capture_output=True)

    def run(network: str) -> Mapping[str, np.ndarray]:
        for old in folder.glob("*.csv"):
            old.unlink()
        subprocess.run([folder / "build" / "whole"], cwd=folder, input=network, text=True, check=True)
        return {file.stem: np.loadtxt(file, delimiter=",") for file in folder.glob("*.csv")}

    return run


def section(
    name: str,
    *,
    delta: int = 1,
    length: int = 800,
    cells: int = 100,
    bed: str = "-2 -2",
    manning: float = 0.0,
    level: float = 0.0,
    wave: str = "0 0 1",
    total: int = 600,
    every: int = 20,
) -> str:
    return f"section {name} {delta} {total // delta} {length} {cells} 5 {bed} {manning} {level} {wave} {every}\n"


def volume(histories: Mapping[str, np.ndarray]) -> np.ndarray:
    total: np.ndarray = np.sum([table[:, 1] for table in histories.values()], axis=0)
    return total


def test_still_water_stays_still_over_a_sloping_bed(solve: Solve) -> None:
    network = section("a", bed="-2 -3") + section("b", bed="-3 -2.5") + section("c", bed="-3 -1.5")
    histories = solve(network + "junction j 1 a.right b.left c.left\n")
    for table in histories.values():
        assert np.abs(table[:, 2:]).max() < 1e-12


def test_a_dam_break_moves_as_stoker_says(solve: Solve) -> None:
    """Two levels meet at a junction of two sections; between the waves the exact solution (Stoker 1957) is constant."""
    deep, shallow, g = 3.0, 2.0, 9.81
    network = section("a", level=deep - 2, total=60, every=60) + section("b", level=shallow - 2, total=60, every=60)
    histories = solve(network + "junction j 1 a.right b.left\n")

    low, high = shallow, deep
    for _ in range(60):  # the depth between rarefaction and shock, by bisection
        middle = 0.5 * (low + high)
        behind_rarefaction = 2 * (np.sqrt(g * deep) - np.sqrt(g * middle))
        behind_shock = (middle - shallow) * np.sqrt(g / 2 * (middle + shallow) / (middle * shallow))
        low, high = (middle, high) if behind_rarefaction > behind_shock else (low, middle)
    at_the_dam = histories["a"][-1, -1] + 2, histories["b"][-1, 2] + 2
    assert at_the_dam == pytest.approx((middle, middle), rel=2e-3)


def test_a_wave_has_the_speed_of_shallow_water(solve: Solve) -> None:
    table = solve(section("a", length=1600, cells=200, wave="0.01 200 100", total=200, every=200))["a"]
    position, level = (np.arange(200) + 0.5) * 8, table[-1, 2:]
    to_the_right = position > 900  # where the other half cannot be yet
    crest = position[to_the_right][level[to_the_right].argmax()]
    assert crest == pytest.approx(200 + 200 * np.sqrt(9.81 * 2), abs=16)


def test_no_water_is_lost_between_different_time_steps(solve: Solve) -> None:
    network = section("fine", wave="0.5 400 200") + section("other") + section("coarse", delta=4, length=1600, cells=50)
    histories = solve(network + "junction j 1 fine.right other.left coarse.left\n")
    assert volume(histories) == pytest.approx(volume(histories)[0], rel=1e-13)
    assert histories["coarse"][-1, 2:].max() > 0.01  # and the wave does get there


def test_nothing_passes_a_gate_before_it_opens(solve: Solve) -> None:
    network = section("up", level=0.5) + section("down") + "gate g 1 300 60 4 up.right down.left\n"
    down = solve(network)["down"]
    opened = down[:, 0] > 300
    assert np.abs(down[:, 2:][~opened]).max() < 1e-12
    assert down[-1, 2:].max() > 0.1


def test_the_coupled_network_equals_one_program_to_the_last_bit(run_model: RunModel) -> None:
    run = run_model(CANAL)
    comparison = subprocess.run(
        [sys.executable, "compare.py", run.folder], cwd=run.model, capture_output=True, text=True, check=False
    )
    assert comparison.returncode == 0, comparison.stdout + comparison.stderr
    assert re.findall(r"(\w+) +equal to the last bit", comparison.stdout) == SECTIONS

    total = volume({name: np.loadtxt(run.work(name) / "volumes.csv", delimiter=",") for name in SECTIONS})
    assert np.abs(total - total[0]).max() <= 1e-10 * total[0]

    picture = pyplot.imread(run.work("picture") / "levels.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # colours: it is not blank
