"""Puts the two halves together, prints the flow in the middle of the box as arrows, and draws it in flow.png."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot

ARROWS = "→↗↑↖←↙↓↘"


def arrows(ux: Any, uy: Any) -> str:
    """The flow in a plane [x][y] as text: one sign for two by two cells, a dot where it hardly moves."""
    columns, rows = ux.shape[0] // 2, ux.shape[1] // 2
    ux, uy = (u[: 2 * columns, : 2 * rows].reshape(columns, 2, rows, 2).mean((1, 3)) for u in (ux, uy))
    angle = np.round(np.arctan2(uy, ux) / (np.pi / 4)).astype(int) % 8
    slow = np.hypot(ux, uy) < 0.01 * np.hypot(ux, uy).max()
    signs = [["·" if slow[x, y] else ARROWS[angle[x, y]] for x in range(columns)] for y in reversed(range(rows))]
    return "\n".join(" ".join(row) for row in signs)


def draw(ux: Any, uy: Any, file: Path) -> None:
    """Speed as colour, and the way the water goes."""
    speed = 1000 * np.hypot(ux, uy)
    x, y = ((np.arange(n) + 0.5) / n for n in ux.shape)
    figure, axes = pyplot.subplots(figsize=(6, 5), layout="constrained")
    colours = axes.pcolormesh(x, y, speed.T, cmap="viridis", shading="nearest", rasterized=True)
    axes.streamplot(x, y, ux.T, uy.T, color="white", linewidth=0.7, arrowsize=0.8, density=1.2)
    axes.axvline(0.5, color="white", linewidth=0.8, linestyle=":")
    axes.set(title="the lid moves to the right", xlabel="west … east", ylabel="bottom … lid", aspect="equal")
    figure.colorbar(colours, ax=axes, label="speed [mm/s]")
    figure.savefig(file, dpi=120)


with xmml.Instance() as me:
    while me.reuse():
        west, east = me.receive("west").data, me.receive("east").data
        flow = {name: np.concatenate([west[name], east[name]]) for name in ("density", "ux", "uy", "uz")}
        np.savez("flow.npz", **flow)
        middle = flow["ux"].shape[2] // 2
        ux, uy = (west["speed"] * flow[name][:, :, middle] for name in ("ux", "uy"))
        file = Path("flow.png").resolve()
        draw(ux, uy, file)
        print(arrows(ux, uy))
        print(f"fastest: {1000 * np.hypot(ux, uy).max():.2f} mm/s; picture: {file}")
