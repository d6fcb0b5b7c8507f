"""Draws the newest vorticity now and then, in newest.png. It holds up nobody; what comes meanwhile is lost to it."""

import os
import time

import matplotlib
import numpy as np

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(field: xmml.Object) -> None:
    north, west, south, east = field["area"]
    figure, panel = pyplot.subplots(figsize=(10, 3), layout="constrained")
    largest = 1e5 * np.abs(field.data).max()
    colours = panel.imshow(
        1e5 * field.data, extent=(west, east, south, north), cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto"
    )
    figure.colorbar(colours, label="vorticity [1e-5 /s]")
    panel.set_title(f"{field['date']:%Y-%m-%d %H UTC} + {field['step']} h, {field['levelist']} hPa, the control")
    panel.set_xlabel("longitude")
    panel.set_ylabel("latitude")
    figure.savefig("newest-.png", dpi=120)
    os.replace("newest-.png", "newest.png")  # who looks at it sees a whole picture
    pyplot.close(figure)


with xmml.Instance() as me:
    every = me.param("every", float, unit="s")
    while me.reuse():
        drawn, newest, pictures, due = None, None, 0, time.monotonic()
        for newest in me.objects("fields"):
            if time.monotonic() >= due:
                draw(newest)
                drawn, pictures, due = newest, pictures + 1, time.monotonic() + every
        if newest is not None and newest is not drawn:
            draw(newest)
            pictures += 1
        print(f"{pictures} pictures, the last one of hour {newest['step'] if newest else None}")
