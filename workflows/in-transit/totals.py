"""Totals of each state (totals.csv), spectra of the kinetic energy (spectra.npy), and a picture of both (totals.png).

In a run it takes the states from its port. `python totals.py FOLDER` reads them from the files of `build/to_files`.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import numpy as np
from states import Fields, read, taken

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot

COLUMNS = "state,time,mass,momentum_x,momentum_y,energy,kinetic_energy,kinetic_energy_y,enstrophy"


def totals(fields: Fields) -> list[float]:
    """Return mass, momentum, energy, kinetic energy, that of the motion in y, and enstrophy: means over the box.

    Lengths are in widths of the box.
    """
    density, momentum_x, momentum_y = fields["density"], fields["momentum_x"], fields["momentum_y"]
    u, v = momentum_x / density, momentum_y / density
    vorticity = (np.gradient(v, axis=1) - np.gradient(u, axis=0)) * density.shape[1]
    sums = [density, momentum_x, momentum_y, fields["energy"]]
    sums += [0.5 * (momentum_x * u + momentum_y * v), 0.5 * momentum_y * v, 0.5 * vorticity**2]
    return [float(each.mean()) for each in sums]


def spectrum(fields: Fields) -> np.ndarray:
    """Return the kinetic energy at each whole wavenumber, of sqrt(density) times the velocity."""
    root = np.sqrt(fields["density"])
    rows, columns = root.shape
    x = np.fft.rfftfreq(columns, 1 / columns)
    y = np.fft.fftfreq(rows, 1 / rows)
    shell = np.rint(np.hypot(x[None, :], y[:, None])).astype(int)
    twice = np.where((x == 0) | (x == columns / 2), 1, 2)  # the transform of real numbers leaves out one half
    energy = sum(np.abs(np.fft.rfft2(fields[name] / root)) ** 2 for name in ("momentum_x", "momentum_y"))
    sums = np.bincount(shell.ravel(), (0.5 * twice * energy).ravel())
    return sums[: min(rows, columns) // 2] / root.size**2


def analyse(states: Iterable[tuple[int, float, Fields]], folder: Path) -> None:
    """Write what is known of the states, each as soon as it has come."""
    spectra, table = [], []
    with (folder / "totals.csv").open("w") as file:
        print(COLUMNS, file=file)
        for state, time, fields in states:
            row = [state, time, *totals(fields)]
            print(*(f"{value!r}" for value in row), sep=",", file=file, flush=True)
            spectra.append(spectrum(fields))
            table.append(row)
    np.save(folder / "spectra.npy", spectra)
    draw(np.array(table), np.array(spectra), folder / "totals.png")
    print(f"{len(table)} states, picture: {(folder / 'totals.png').resolve()}")


def draw(table: np.ndarray, spectra: np.ndarray, file: Path) -> None:
    """Energies and enstrophy over time, and spectra at five times."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, label in (("kinetic_energy_y", "kinetic energy of the motion in y"), ("enstrophy", "enstrophy")):
        left.semilogy(table[:, 1], table[:, COLUMNS.split(",").index(name)], label=label)
    left.set_xlabel("time")
    left.legend()
    for index in np.linspace(0, len(table) - 1, 5).astype(int):
        right.loglog(spectra[index, 1:], label=f"t = {table[index, 1]:.2f}")
    right.set_xlabel("wavenumber")
    right.set_ylabel("kinetic energy")
    right.set_ylim(bottom=1e-12)
    right.legend()
    figure.savefig(file, dpi=100)


if len(sys.argv) > 1:
    analyse(read(Path(sys.argv[1])), Path())
else:
    with xmml.Instance() as me:
        while me.reuse():
            analyse(taken(me, "fields"), Path())
