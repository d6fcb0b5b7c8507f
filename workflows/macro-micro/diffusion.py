"""Slow diffusion of two substances u and v on a square with periodic edges. In every step it calls a fast reaction.

python diffusion.py --alone      the diffusion by itself: no reaction, nothing to install or start
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot


def start(cells: int) -> np.ndarray:
    """u everywhere, and in the middle a patch of v. An array of shape (2, cells, cells)."""
    state = np.zeros((2, cells, cells))
    state[0] = 1.0
    patch = slice(cells // 2 - 6, cells // 2 + 6)
    state[0, patch, patch], state[1, patch, patch] = 0.5, 0.25
    state[1, patch, cells // 2 + 4 : cells // 2 + 6] = 0.0  # not quite symmetric
    return state


def diffuse(state: np.ndarray, diffusivity: np.ndarray, dt: float) -> np.ndarray:
    """One explicit step; the unit of length is a cell."""
    around = np.sum([np.roll(state, shift, axis) for shift in (1, -1) for axis in (1, 2)], axis=0)
    return state + dt * diffusivity * (around - 4 * state)


def draw(state: np.ndarray, file: str) -> None:
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for panel, field, name in zip(panels, state, "uv", strict=True):
        figure.colorbar(panel.imshow(field, cmap="viridis", origin="lower"), ax=panel, label=name)
    figure.savefig(file, dpi=120)


MODEL = Path(__file__).with_name("model.xmml")

with xmml.Instance.alone(MODEL, "diffusion") if "--alone" in sys.argv else xmml.Instance() as me:
    diffusivity = np.array([me.param("du", float), me.param("dv", float)]).reshape(2, 1, 1)
    while me.reuse():
        state = start(me.param("cells", int))
        for _ in me.steps():
            state = diffuse(state, diffusivity, me.delta)
            me.send("state", state)
            state = me.receive("reacted", default=state).data
        draw(state, "pattern.png")
        print(f"after {me.total:.0f} s: {state[0].mean():.4f} of u, {state[1].mean():.4f} of v; picture in pattern.png")
