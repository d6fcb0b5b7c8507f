"""The smaller models of workflows/, coupled, and each of their programs by itself (the canal: test_canal.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from model_runs import RunModel, environment

WORKFLOWS = Path(__file__).parent.parent.parent / "workflows"
MACRO_MICRO = WORKFLOWS / "macro-micro"


def test_hello_prints_a_greeting_in_every_step(run_model: RunModel) -> None:
    run = run_model(WORKFLOWS / "hello")
    assert run.lines("listener") == [f"hello, it is {t} s" for t in range(3)]


def test_reaction_and_diffusion_grow_the_pattern_of_gray_and_scott(run_model: RunModel) -> None:
    run = run_model(MACRO_MICRO)
    assert amounts(run.output("diffusion")) == pytest.approx(gray_scott(), abs=1e-4)
    assert run.report["instances"]["reaction"]["runs"] == 2500
    picture = pyplot.imread(run.work("diffusion") / "pattern.png")
    assert len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 100  # colours: it is not blank


def test_diffusion_alone_only_spreads_the_spot(tmp_path: Path) -> None:
    program = [sys.executable, str(MACRO_MICRO / "diffusion.py"), "--alone"]
    alone = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert alone.returncode == 0, alone.stderr
    assert amounts(alone.stdout) == pytest.approx((1 - 0.5 * 144 / 10000, 0.25 * 120 / 10000), abs=1e-4)


def test_reaction_alone_prints_a_table(tmp_path: Path) -> None:
    for file in ("Makefile", "reaction.cpp"):
        (tmp_path / file).write_bytes((MACRO_MICRO / file).read_bytes())
    subprocess.run(["make"], cwd=tmp_path, env=environment(), check=True, capture_output=True)
    alone = subprocess.run([tmp_path / "build" / "reaction", "--alone"], capture_output=True, text=True, check=True)
    rows = [[float(word) for word in line.split()] for line in alone.stdout.splitlines()[1:]]
    assert rows[0] == [0.0, 0.5, 0.25]
    u, v = 0.5, 0.25
    for _ in range(500):
        turnover = u * v * v
        u, v = u + 0.2 * (0.035 * (1 - u) - turnover), v + 0.2 * (turnover - 0.095 * v)
    assert rows[-1] == pytest.approx([100.0, u, v], abs=1e-4)


def amounts(text: str) -> tuple[float, float]:
    """The means of u and v that diffusion.py prints."""
    found = re.search(r"([\d.]+) of u, ([\d.]+) of v", text)
    assert found, text
    return float(found[1]), float(found[2])


def gray_scott() -> tuple[float, float]:
    """The same equations with the same splitting, in one program."""
    u, v = np.ones((100, 100)), np.zeros((100, 100))
    u[44:56, 44:56], v[44:56, 44:54] = 0.5, 0.25
    for _ in range(2500):
        for field, diffusivity in ((u, 0.16), (v, 0.08)):
            around = np.roll(field, 1, 0) + np.roll(field, -1, 0) + np.roll(field, 1, 1) + np.roll(field, -1, 1)
            field += diffusivity * (around - 4 * field)
        for _ in range(5):
            turnover = u * v * v
            u += 0.2 * (0.035 * (1 - u) - turnover)
            v += 0.2 * (turnover - 0.095 * v)
    return float(u.mean()), float(v.mean())
