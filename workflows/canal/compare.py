"""Solves the network of a finished run again, in one program without coupling, and compares every water level.

python compare.py runs/canal-...
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from xmml.check import check
from xmml.model import Instance, Model
from xmml.units import parse

HERE = Path(__file__).parent
SHAPE = [
    "length",
    "cells",
    "width",
    "bed_left",
    "bed_right",
    "manning",
    "level",
    "wave_height",
    "wave_at",
    "wave_width",
]
GATE = ["opens_at", "opens_within", "area"]


def network(model: Model) -> str:
    """The network as whole.cpp reads it."""

    def numbers(instance: Instance, names: list[str]) -> list[str]:
        return [f"{float(parse(instance.params[name])):.17g}" for name in names]

    lines = []
    for instance in model.instances.values():
        if instance.definition.id == "Section":
            lines.append(
                [
                    "section",
                    instance.id,
                    repr(instance.delta_s),
                    str(instance.steps),
                    *numbers(instance, [*SHAPE, "record_every"]),
                ]
            )
    for instance in model.instances.values():
        coupled = [coupling for coupling in model.couplings if coupling.receiver.instance == instance.id]
        at = {c.receiver.port: f"{c.sender.instance}.{c.sender.port.removesuffix('_out')}" for c in coupled}
        ends = [at[port] for port in instance.ports if port in at]  # in the order of the definition
        if instance.definition.id == "Junction":
            lines.append(["junction", instance.id, repr(instance.delta_s), *ends])
        elif instance.definition.id == "Gate":
            lines.append(["gate", instance.id, repr(instance.delta_s), *numbers(instance, GATE), *ends])
    return "".join(" ".join(line) + "\n" for line in lines)


def solve(text: str) -> dict[str, np.ndarray]:
    """The water levels of every section over time, by the program that needs no coupling."""
    subprocess.run(["make", "--silent", "build/whole"], cwd=HERE, check=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([HERE / "build" / "whole"], input=text, text=True, cwd=folder, check=True)
        return {file.stem: np.loadtxt(file, delimiter=",")[:, 2:] for file in Path(folder).glob("*.csv")}


def main(run: Path) -> int:
    model = check(run / "model.xmml").model_or_raise()
    equal = True
    for name, alone in sorted(solve(network(model)).items()):
        coupled = np.load(run / "instances" / name / "work" / "levels.npy")
        same = np.array_equal(coupled, alone)
        print(f"{name:10} {'equal to the last bit' if same else f'differs by {np.abs(coupled - alone).max():.1e}'}")
        equal = equal and same
    return 0 if equal else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
