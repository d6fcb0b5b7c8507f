"""The same forecast and the same products in the usual way, by files, to compare it with.

python by_files.py MODEL FOLDER       MODEL: model.xmml, or that of a finished run, whose parameters it takes

Members write a file for each field and rename it when it is whole. Workers poll the folder. Who can rename a file has
it, reads it, makes its products and removes it, unless it is to be kept, or the statistics want it. FOLDER must be new.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import generation
import numpy as np
import requirements

import xmml

HERE = Path(__file__).parent
#: A folder without anything new is looked at again after this long [s].
POLL_S = 0.01


def key_of(name: str) -> requirements.Key:
    """Return what the field in a file is: STEP-NUMBER-PARAM-LEVEL.npy."""
    step, number, param, level = name.removesuffix(".npy").split("-")
    return param, int(level), int(step), int(number)


def taken(folder: Path, mine: Path, ends: list[Path]) -> Iterator[Path]:
    """Yield the fields that this process has got hold of, until those who write them have ended and none is left."""
    while True:
        over = all(end.exists() for end in ends)  # asked before the look, so that what came last is seen
        names = [name for name in os.listdir(folder) if name.endswith(".npy") and not name.startswith(".")]
        for name in sorted(names):
            try:
                os.rename(folder / name, mine / name)
            except FileNotFoundError:
                continue  # another worker has it
            yield mine / name
        if not names:
            if over:
                return
            time.sleep(POLL_S)


def keep(product: np.ndarray | float, request: requirements.Request, folder: Path) -> None:
    before = folder / f".{request.number}.npy"
    np.save(before, product)
    before.rename(folder / f"{request.number}.npy")


def dispose(file: Path, folder: Path) -> None:
    """Keep the fields of every sixth hour, and remove the others."""
    if key_of(file.name)[2] % 6 == 0:
        file.rename(folder / "archive" / file.name)
    else:
        file.unlink()


def grid_of(folder: Path, shape: tuple[int, ...]) -> generation.Grid:
    return generation.Grid.of(*json.loads((folder / "fields" / "grid-0.json").read_text()), shape)


def work(folder: Path, index: int, members: int) -> None:
    """What a worker does."""
    wanted = requirements.read(HERE / "requirements.txt")
    mine = folder / f"worker-{index}"
    mine.mkdir()
    grid = None
    for file in taken(folder / "fields", mine, [folder / "fields" / f"done-{member}" for member in range(members)]):
        key = key_of(file.name)
        if requests := wanted.get(key):
            field = np.load(file)
            grid = grid or grid_of(folder, field.shape)
            for request in requests:
                keep(generation.make(request, field, grid), request, folder / "products")
        if (*key[:3], None) in wanted:
            file.rename(folder / "ensemble" / file.name)
        else:
            dispose(file, folder)
    (folder / f"worked-{index}").touch()


def count(folder: Path, workers: int, members: int) -> None:
    """What the statistics of the ensemble do."""
    wanted = requirements.read(HERE / "requirements.txt")
    mine = folder / "statistics"
    mine.mkdir()
    grid = None
    waiting: dict[requirements.Key, generation.Ensemble] = {}
    for file in taken(folder / "ensemble", mine, [folder / f"worked-{index}" for index in range(workers)]):
        key = (*key_of(file.name)[:3], None)
        field = np.load(file)
        grid = grid or grid_of(folder, field.shape)
        ensemble = waiting.setdefault(key, generation.Ensemble(wanted[key], members))
        if ensemble.add(field):
            del waiting[key]
            for request in ensemble.requests:
                keep(ensemble.make(request, grid), request, folder / "products")
        dispose(file, folder)


def run(model: Path, folder: Path) -> None:
    """Start everybody, and wait for them."""
    with xmml.Instance.alone(model, "worker") as me:
        workers = me.count
    with xmml.Instance.alone(model, "member") as me:
        members = me.count
        units = {"jet": "m/s", "diffusion": "m^2/s", "spread": "m"}
        names = ("lon", "lat", "fields", "jet", "diffusion", "bumps", "spread")
        words = [f"{me.param(name, float, unit=units.get(name)):.17g}" for name in names]
        words += [f"{me.delta:.17g}", str(round(me.total / me.delta))]
    subprocess.run(["make", "--silent", "build/member_by_files"], cwd=HERE, check=True)
    folder.mkdir(parents=True)
    for name in ("fields", "ensemble", "archive", "products"):
        (folder / name).mkdir()

    program, python = HERE / "build" / "member_by_files", [sys.executable, __file__]
    commands = [[program, folder / "fields", str(number), *words] for number in range(members)]
    commands += [[*python, "worker", folder, str(index), str(members)] for index in range(workers)]
    commands.append([*python, "statistics", folder, str(workers), str(members)])
    started = [subprocess.Popen(command) for command in commands]
    for process in started:  # members first, then those who wait for them
        if process.wait() != 0:
            for other in started:
                other.kill()
            sys.exit(f"failed: {' '.join(map(str, process.args))}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["worker", folder, index, members]:
            work(Path(folder), int(index), int(members))
        case ["statistics", folder, workers, members]:
            count(Path(folder), int(workers), int(members))
        case [model, folder]:
            run(Path(model), Path(folder))
        case _:
            sys.exit(__doc__)
