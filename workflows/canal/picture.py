"""Draws the water level along each route through the network, over time, in levels.png. Prints the water balance."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import xmml

matplotlib.use("Agg")
from matplotlib import colors, pyplot


def draw(routes: list[list[str]], history: dict[str, Any], file: Path) -> None:
    """One panel per route: distance to the right, time upwards, level as colour."""
    highest = max(np.abs(section["level"]).max() for section in history.values())
    scale = colors.SymLogNorm(linthresh=highest / 10, vmin=-highest, vmax=highest)  # shows ripples beside the big front
    size = (5 * len(routes), 5)
    figure, panels = pyplot.subplots(1, len(routes), figsize=size, sharey=True, layout="constrained", squeeze=False)
    for panel, route in zip(panels[0], routes, strict=True):
        start = 0.0
        for name in route:
            level, minutes, length = history[name]["level"], history[name]["time"] / 60, history[name]["length"]
            cells = level.shape[1]
            middle = start + (np.arange(cells) + 0.5) * length / cells
            colours = panel.pcolormesh(middle, minutes, level, cmap="RdBu", norm=scale, rasterized=True)
            panel.text(start + length / 2, 1.01, name, ha="center", transform=panel.get_xaxis_transform())
            start += length
            panel.axvline(start, color="black", linewidth=0.8)
        panel.set_xlabel("distance from the head [m]")
    panels[0, 0].set_ylabel("time [min]")
    figure.colorbar(colours, ax=panels[0].tolist(), label="water level [m]", format="%.2g")
    figure.savefig(file, dpi=120)


def balance(history: dict[str, Any]) -> tuple[float, float]:
    """The water in the network at the start [m^3], and the largest change of it since, relative."""
    volume = np.sum([section["volume"] for section in history.values()], axis=0)
    return volume[0], np.abs(volume - volume[0]).max() / volume[0]


with xmml.Instance() as me:
    routes = [route.split() for route in me.param("routes").split(",")]
    names = list(dict.fromkeys(name for route in routes for name in route))
    while me.reuse():
        history = {name: me.receive(name).data for name in names}
        file = Path("levels.png").resolve()
        draw(routes, history, file)
        volume, change = balance(history)
        print(f"water in the canals: {volume:.0f} m3, largest change {change:.1e} of it")
        print(f"picture: {file}")
