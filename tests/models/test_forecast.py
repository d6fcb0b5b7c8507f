"""The forecast: its atmosphere by itself, and its products against the same made in other ways."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from model_runs import Run, environment, run_document

import xmml

FORECAST = Path(__file__).parent.parent.parent / "workflows" / "forecast"
STEPS = (0, 3, 6)
MEMBERS = WORKERS = 2
FIELDS = 19


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workflow, with two members and three steps."""
    copy = tmp_path_factory.mktemp("forecast") / "forecast"
    shutil.copytree(FORECAST, copy, ignore=shutil.ignore_patterns("build", "runs", "__pycache__"))
    document = copy / "model.xmml"
    text = document.read_text()
    for before, after in (('multiplicity="4"', f'multiplicity="{MEMBERS}"'), ('total="144 hr"', 'total="6 hr"')):
        assert before in text
        text = text.replace(before, after)
    document.write_text(text)
    return copy


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """The run of it on a small grid."""
    options = ("-p", "member.lon=72", "-p", "member.lat=28", "-p", f"member.fields={FIELDS}")
    return run_document(folder / "model.xmml", *options, folder=folder / "run")


def archive_of(run: Run) -> str:
    return str(run.work("archive") / "forecast.archive")


def python(folder: Path, *words: str | Path) -> str:
    """What a program of the workflow prints."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alone(folder: Path, hours: int, step: float, diffusion: float, bump: float) -> np.ndarray:
    """A table of the atmosphere alone: hour, mass, energy and fastest wind in each row."""
    subprocess.run(["make", "--silent", "build/alone"], cwd=folder, env=environment(), check=True)
    words = [folder / "build" / "alone", "72", "28", *map(str, (hours, step, diffusion, bump))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return np.loadtxt(StringIO(done.stdout), delimiter=",", skiprows=1)


def test_a_jet_in_balance_stays_as_it_is(folder: Path) -> None:
    table = alone(folder, hours=48, step=300, diffusion=0, bump=0)
    assert table[:, 1:] == pytest.approx(np.broadcast_to(table[0, 1:], table[:, 1:].shape), rel=1e-12)


def test_mass_is_conserved_to_rounding_and_energy_but_for_the_error_of_the_time_step(folder: Path) -> None:
    tables = [alone(folder, hours=24, step=step, diffusion=0, bump=120) for step in (300, 150)]
    for table in tables:
        assert table[:, 1] == pytest.approx(table[0, 1], rel=1e-13)
    long, short = (abs(table[-1, 2] / table[0, 2] - 1) for table in tables)
    assert long < 1e-8
    assert long / short == pytest.approx(2**5, rel=0.1)


def test_diffusion_takes_energy_and_no_mass(folder: Path) -> None:
    table = alone(folder, hours=24, step=300, diffusion=1e6, bump=120)
    assert table[:, 1] == pytest.approx(table[0, 1], rel=1e-13)
    assert (np.diff(table[:, 2]) < 0).all()


def test_each_request_is_met_once_and_its_product_is_that_of_the_archived_fields(folder: Path, run: Run) -> None:
    told = python(folder, "compare.py", run.folder)
    requests, met = re.findall(r"(\d+) requests, (\d+) of which were met exactly once", told)[0]
    assert int(requests) == int(met) > 200
    kinds = ("point", "crop", "mean", "grid", "above", "em", "es", "ep")
    assert set(kinds) <= set(re.findall(r"[a-z]+", told.splitlines()[1]))


def test_a_line_with_lists_asks_for_each_combination(folder: Path) -> None:
    (folder / "lists.txt").write_text(
        "place, name=Here, at=50/8  # a comment\n"
        "point, param=t/z, levelist=500, step=0/to/12/by/6, number=0/1, place=Here\n"
        "ep, param=10si, step=3, area=60/0/40/20, threshold=8/12\n"
    )
    program = "import requirements, pathlib; print(requirements.read(pathlib.Path('lists.txt')))"
    wanted = python(folder, "-c", program)
    assert len(re.findall(r"at=\(50\.0, 8\.0\)", wanted)) == 2 * 3 * 2
    assert "('10si', 0, 3, None): [Request(number=12, product='ep'" in wanted
    assert re.findall(r"threshold=([\d.]+)", wanted) == ["8.0", "12.0"]


def test_a_line_that_is_no_request_is_named(folder: Path) -> None:
    (folder / "wrong.txt").write_text("\npoint, param=t, levelist=500, step=0, number=0, place=Nowhere\n")
    program = "import requirements, pathlib; requirements.read(pathlib.Path('wrong.txt'))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "wrong.txt:2: this is no request (KeyError('Nowhere'))" in done.stderr


def test_each_field_goes_to_one_worker(run: Run) -> None:
    counts = [re.findall(r"products of (\d+) fields", run.output(f"worker[{index}]")) for index in range(WORKERS)]
    assert sum(int(count) for [count] in counts) == len(STEPS) * MEMBERS * FIELDS


def test_the_archive_keeps_the_fields_of_every_sixth_hour(run: Run) -> None:
    with xmml.open_archive(archive_of(run)) as archive:
        kept = Counter(each["step"] for each in archive.select("not has(request)"))
        assert kept == {0: MEMBERS * FIELDS, 6: MEMBERS * FIELDS}
        [height] = archive.select("step = 6 and param = 'z' and levelist = 500 and number = 1 and not has(request)")
        assert height.data.shape == (28, 72)
        assert (height["type"], height["stream"], height["class"]) == ("pf", "enfo", "rd")
        assert 4500 < height.data.min() < height.data.max() < 6000


def test_files_give_the_same_products(folder: Path, run: Run) -> None:
    python(folder, "by_files.py", run.folder / "model.xmml", folder / "files")
    told = python(folder, "compare.py", run.folder, folder / "files")
    assert "products by files" in told
    left = [path.name for path in (folder / "files").rglob("*.npy") if path.parent.name not in ("products", "archive")]
    assert left == []


def test_pictures_of_products_and_of_the_newest_state_are_not_blank(folder: Path, run: Run) -> None:
    python(folder, "products.py", run.folder)
    pictures = (run.folder / "plumes.png", run.folder / "ensemble.png", run.work("onlooker") / "newest.png")
    for picture in pictures:
        pixels = pyplot.imread(picture)
        assert len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 30, picture
