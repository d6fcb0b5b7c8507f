"""A flow that is analysed in transit: its solver by itself, and both analyses against the same with files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from model_runs import environment, run_document
from needs import needs

IN_TRANSIT = Path(__file__).parent.parent.parent / "workflows" / "in-transit"

pytestmark = needs("mpicc", "mpirun")

#: What a file of the solver holds.
DENSITY, MOMENTUM_X, MOMENTUM_Y, ENERGY = range(4)

#: States from time 0 on, of which each has four fields, rows and columns: (state, field, row, column).
Solve = Callable[..., np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workflow with the solver that writes files."""
    copy = tmp_path_factory.mktemp("workflow") / "in-transit"
    shutil.copytree(IN_TRANSIT, copy, ignore=shutil.ignore_patterns("build", "files", "runs", "__pycache__"))
    subprocess.run(["make", "build/to_files"], cwd=copy, env=environment(), check=True, capture_output=True)
    return copy


@pytest.fixture
def solve(folder: Path, tmp_path: Path) -> Solve:
    """The solver without coupling."""

    def run(case: str, cells: int, interval: float, total: float, ranks: int = 1) -> np.ndarray:
        states = tmp_path / f"{case}-{cells}-{ranks}"
        states.mkdir()
        program = [folder / "build/to_files", case, str(cells), str(interval), str(total), states]
        subprocess.run(["mpirun", "-n", str(ranks), *program], env=environment(), check=True, capture_output=True)
        return np.array([np.load(file) for file in sorted(states.glob("*.npy"))])

    return run


def test_the_density_of_sods_tube_converges_to_the_exact_one(solve: Solve) -> None:
    """With a shock and a contact in it, to first order and less: two thirds at the contact, one at the shock."""
    errors = []
    for cells in (100, 400):
        density = solve("sod", cells, 0.2, 0.2)[-1, DENSITY, 0]
        errors.append(np.abs(density - sods_density((np.arange(cells) + 0.5) / cells, 0.2)).mean())
    assert errors[0] < 0.01
    assert 0.7 < np.log(errors[0] / errors[1]) / np.log(4) < 1.2


def sods_density(x: np.ndarray, t: float, gamma: float = 1.4) -> np.ndarray:
    """The exact solution: a rarefaction, a contact, a shock (Toro, chapter 4)."""
    left, right, p_left, p_right = 1.0, 0.125, 1.0, 0.1
    c_left = np.sqrt(gamma * p_left / left)
    power = (gamma - 1) / (2 * gamma)
    low, high = p_right, p_left
    for _ in range(60):  # the pressure between rarefaction and shock, by bisection
        p = (low + high) / 2
        behind_rarefaction = 2 * c_left / (gamma - 1) * (1 - (p / p_left) ** power)
        behind_shock = (p - p_right) * np.sqrt(2 / right / ((gamma + 1) * p + (gamma - 1) * p_right))
        low, high = (p, high) if behind_rarefaction > behind_shock else (low, p)
    before_contact = left * (p / p_left) ** (1 / gamma)
    ratio, part = p / p_right, (gamma - 1) / (gamma + 1)
    behind_contact = right * (ratio + part) / (part * ratio + 1)
    u = behind_shock
    shock = behind_contact * u / (behind_contact - right)
    s = (x - 0.5) / t
    fan = left * (1 - (gamma - 1) / (gamma + 1) * (s / c_left + 1)) ** (2 / (gamma - 1))
    tail = u - np.sqrt(gamma * p / before_contact)
    return np.select(
        [s < -c_left, s < tail, s < u, s < shock], [np.full_like(s, left), fan, before_contact, behind_contact], right
    )


def test_a_smooth_wave_converges_with_second_order(solve: Solve) -> None:
    errors = []
    for cells in (32, 64):
        states = solve("wave", cells, 0.5, 0.5)[:, DENSITY]
        errors.append(np.abs(states[-1] - states[0]).mean())  # it has gone once through the box: x + y changes by 1
    assert np.log2(errors[0] / errors[1]) > 1.7


def test_mass_momentum_and_energy_stay_in_a_periodic_box(solve: Solve) -> None:
    totals = solve("kelvin-helmholtz", 32, 0.5, 2).mean(axis=(2, 3))
    size = np.abs(totals[0]).max()
    assert np.abs(totals - totals[0]).max() < 1e-12 * size


def test_mass_and_energy_stay_within_walls(solve: Solve) -> None:
    totals = solve("implosion", 32, 0.5, 2).mean(axis=(2, 3))[:, [DENSITY, ENERGY]]
    assert totals == pytest.approx(np.broadcast_to(totals[0], totals.shape), rel=1e-12)


def test_two_ranks_compute_the_same_bits_as_one(solve: Solve) -> None:
    for case in ("kelvin-helmholtz", "implosion"):
        assert np.array_equal(solve(case, 32, 0.05, 0.1, ranks=2), solve(case, 32, 0.05, 0.1))


def test_analyses_in_transit_find_the_same_as_those_of_files(folder: Path, solve: Solve, tmp_path: Path) -> None:
    states = tmp_path / "kelvin-helmholtz-40-1"
    solve("kelvin-helmholtz", 40, 0.02, 0.1)
    for analysis in (["totals.py", states], ["film.py", states, "2"]):
        command = [sys.executable, folder / analysis[0], *analysis[1:]]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    model = folder / "model.xmml"
    text = model.read_text()
    assert 'total="2 s"' in text
    model.write_text(text.replace('total="2 s"', 'total="0.1 s"'))
    run = run_document(model, "-p", "flow.cells=40", folder=tmp_path / "run")

    assert (run.work("totals") / "totals.csv").read_text() == (tmp_path / "totals.csv").read_text()
    assert np.array_equal(np.load(run.work("totals") / "spectra.npy"), np.load(tmp_path / "spectra.npy"))
    frames = sorted(file.name for file in run.work("film").glob("*.png"))
    assert frames == [f"frame-{state:04d}.png" for state in (0, 2, 4)]
    for frame in frames:
        picture = pyplot.imread(run.work("film") / frame)
        assert np.array_equal(picture, pyplot.imread(tmp_path / frame))
        assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # colours: it is not blank
