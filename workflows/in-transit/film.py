"""A picture of the density of each state: frame-NNNN.png.

In a run it takes the states from its port, as many as it can keep up with. `python film.py FOLDER EVERY` reads every so
many of the states that `build/to_files` has written.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import matplotlib
from states import Fields, read, taken

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot


def film(states: Iterable[tuple[int, float, Fields]], folder: Path) -> None:
    """Draw the states as they come; the first one gives the scale of the colours."""
    figure, axes = pyplot.subplots(figsize=(5.4, 4.6), layout="constrained")
    image, frames = None, 0
    for state, time, fields in states:
        density = fields["density"]
        if image is None:
            middle, half = (density.max() + density.min()) / 2, 0.6 * (density.max() - density.min())
            image = axes.imshow(density, origin="lower", cmap="magma", vmin=middle - half, vmax=middle + half)
            axes.set_xticks([])
            axes.set_yticks([])
            figure.colorbar(image, label="density")
        image.set_data(density)
        axes.set_title(f"t = {time:.2f}")
        figure.savefig(folder / f"frame-{state:04d}.png", dpi=100)
        frames += 1
    print(f"{frames} frames: {folder.resolve()}/frame-*.png")


if len(sys.argv) > 1:
    film(read(Path(sys.argv[1]), int(sys.argv[2])), Path())
else:
    with xmml.Instance() as me:
        while me.reuse():
            film(taken(me, "fields"), Path())
