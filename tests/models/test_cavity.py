"""The cavity: its lattice-Boltzmann method by itself, and two coupled halves against the whole box in one program."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from model_runs import RunModel
from waiting import RUN_LIMIT_S

CAVITY = Path(__file__).parent.parent.parent / "workflows" / "cavity"

Flow = Mapping[str, Any]
Solve = Callable[..., Flow]


@pytest.fixture(scope="module")
def solve(tmp_path_factory: pytest.TempPathFactory) -> Solve:
    """The box in one program: extents in cells, lid, viscosity, steps -> density, ux, uy, uz."""
    folder = tmp_path_factory.mktemp("whole")
    for file in ("Makefile", "whole.cpp", "cavity.hpp"):
        (folder / file).write_bytes((CAVITY / file).read_bytes())
    subprocess.run(["make", "build/whole"], cwd=folder, check=True, capture_output=True)

    def run(shape: tuple[int, int, int], lid: float, viscosity: float, steps: int) -> Flow:
        words = [folder / "build" / "whole", *map(str, shape), repr(lid), repr(viscosity), str(steps)]
        done = subprocess.run(words, capture_output=True, check=True, timeout=RUN_LIMIT_S)
        fields = np.frombuffer(done.stdout).reshape(4, *shape)
        return dict(zip(("density", "ux", "uy", "uz"), fields, strict=True))

    return run


def test_two_halves_compute_what_the_whole_does_to_the_last_bit(run_model: RunModel, solve: Solve) -> None:
    run = run_model(CAVITY)
    words = re.search(r"of (\d+) x (\d+) x (\d+), lid (\S+), viscosity (\S+)", run.output("west"))
    assert words, run.output("west")
    shape = (int(words[1]), int(words[2]), int(words[3]))
    whole = solve(shape, float(words[4]), float(words[5]), 2560)
    with np.load(run.work("picture") / "flow.npz") as coupled:
        for name, field in whole.items():
            assert coupled[name].tobytes() == field.tobytes(), name
    picture = pyplot.imread(run.work("picture") / "flow.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # colours: it is not blank
    arrows = run.lines("picture")
    assert arrows[0].count("→") > 10  # under the lid
    assert "←" in arrows[10]  # and back below


def test_water_is_neither_made_nor_lost(solve: Solve) -> None:
    density = solve((12, 10, 8), 0.1, 0.02, 500)["density"]
    assert density.sum() == pytest.approx(12 * 10 * 8, rel=1e-12)


def test_each_step_is_that_of_the_method_written_down_plainly(solve: Solve) -> None:
    ours, plain = solve((7, 6, 5), 0.08, 0.03, 40), plain_method((7, 6, 5), 0.08, 0.03, 40)
    for name, field in plain.items():
        np.testing.assert_allclose(ours[name], field, rtol=0, atol=1e-13, err_msg=name)


def test_in_a_long_box_the_flow_is_that_of_a_duct(solve: Solve) -> None:
    height, width, lid = 16, 20, 0.01
    viscosity = np.sqrt(3) / 12  # with it the walls lie half way between cells, whatever the flow
    flow = solve((48, height, width), lid, float(viscosity), 2000)
    y = np.arange(height) + 0.5
    ours = (flow["ux"][24, :, width // 2 - 1] + flow["ux"][24, :, width // 2]) / 2
    np.testing.assert_allclose(ours, duct(y, height, width, lid), rtol=0, atol=0.005 * lid)


def plain_method(shape: tuple[int, int, int], lid: float, viscosity: float, steps: int) -> Flow:
    """D3Q19 with one relaxation time, cell by cell as in a textbook: stream, or turn round at a wall; then relax."""
    velocities = [c for c in itertools.product((-1, 0, 1), repeat=3) if np.abs(c).sum() <= 2]
    weights = {0: 1 / 3, 1: 1 / 18, 2: 1 / 36}
    omega = 1 / (3 * viscosity + 0.5)
    f = {c: np.full(shape, weights[int(np.abs(c).sum())]) for c in velocities}
    for _ in range(steps):
        f = streamed(f, shape, lid, weights)
        density, u = moments(f)
        for c in velocities:
            cu = sum(c[i] * u[i] for i in range(3))
            even = 1 + 3 * cu + 4.5 * cu**2 - 1.5 * (u[0] ** 2 + u[1] ** 2 + u[2] ** 2)
            f[c] = f[c] + omega * (weights[int(np.abs(c).sum())] * density * even - f[c])
    density, u = moments(f)
    return {"density": density, "ux": u[0], "uy": u[1], "uz": u[2]}


def moments(f: Mapping[tuple[int, ...], Any]) -> tuple[Any, list[Any]]:
    """Density, and velocity."""
    density = sum(f.values())
    return density, [sum(c[i] * f[c] for c in f) / density for i in range(3)]


def streamed(
    f: Mapping[tuple[int, ...], Any], shape: tuple[int, int, int], lid: float, weights: Mapping[int, float]
) -> dict[tuple[int, ...], Any]:
    result = {c: np.zeros(shape) for c in f}
    for c in f:
        back = (-c[0], -c[1], -c[2])
        for cell in np.ndindex(*shape):
            x, y, z = (cell[i] - c[i] for i in range(3))
            if 0 <= x < shape[0] and 0 <= y < shape[1] and 0 <= z < shape[2]:
                result[c][cell] = f[c][x, y, z]
            else:
                under_the_lid = y == shape[1]
                push = 6 * weights[int(np.abs(c).sum())] * lid * c[0] if under_the_lid else 0.0
                result[c][cell] = f[back][cell] + push
    return result


def duct(y: Any, height: float, width: float, lid: float) -> Any:
    """Slow flow in the middle of a closed duct: dragged along by the lid, pushed back so that as much comes as goes.

    As much on the lattice: what is turned round at the lid is part of the velocity there, a sixth of a cell at the
    speed of the lid, but stays where it is. It vanishes as cells get smaller.
    """
    n = np.arange(1, 400, 2)[:, None]
    k = n * np.pi / width
    middle = np.sin(n * np.pi / 2)
    # The quotients of sinh and of cosh, as exponentials that do not overflow.
    dragged = 4 * lid / (n * np.pi) * middle * (np.exp(k * (y - height)) - np.exp(-k * (y + height)))
    dragged = (dragged / (1 - np.exp(-2 * k * height))).sum(0)
    cosh = (np.exp(k * (y - height)) + np.exp(-k * y)) / (1 + np.exp(-k * height))
    pushed = (4 / (n * np.pi) / k**2 * middle * (1 - cosh)).sum(0)
    tanh = np.tanh(k * height / 2)
    drag_flux = (4 * lid / (n * np.pi) * 2 / k / k * tanh).sum()
    push_flux = (4 / (n * np.pi) / k**2 * 2 / k * (height - 2 / k * tanh)).sum()
    return dragged - (drag_flux - lid * width / 6) / push_flux * pushed
