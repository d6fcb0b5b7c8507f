"""Draws maps of the days that it selects: how deep the water table lies, and how much evaporates.

Ground and surface hold the fields in pieces, in rows and in columns; here they arrive whole.
"""

import matplotlib
import numpy as np

import xmml

matplotlib.use("Agg")
from matplotlib import pyplot

SHOWN = {
    "depth": ("depth of the water table [m]", 1.0, "YlGnBu_r"),
    "evaporation": ("evaporation [mm/day]", 86_400_000.0, "YlGn"),
}


def draw(days: dict[int, dict[str, np.ndarray]]) -> None:
    """Draw a row of maps for each quantity, a column for each day."""
    figure, axes = pyplot.subplots(
        len(SHOWN),
        len(days),
        figsize=(3.1 * len(days), 5.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for row, (name, (title, factor, colours)) in zip(axes, SHOWN.items(), strict=True):
        most = max(factor * fields[name].max() for fields in days.values())
        for ax, (day, fields) in zip(row, sorted(days.items()), strict=True):
            image = ax.imshow(
                factor * fields[name].T, origin="lower", extent=(0, 6, 0, 4.5), vmin=0, vmax=most, cmap=colours
            )
            if name == "depth":
                ax.set_title(f"day {day}")
        figure.colorbar(image, ax=row, label=title)
    figure.supxlabel("distance from the stream [km]")
    figure.savefig("maps.png", dpi=110)


def main() -> None:
    days: dict[int, dict[str, np.ndarray]] = {}
    with xmml.Instance() as me:
        while me.reuse():
            for field in me.objects("fields"):
                days.setdefault(field["day"], {})[field["name"]] = np.array(field.data)
    draw(days)
    print(f"maps of the days {', '.join(map(str, sorted(days)))}: maps.png")


if __name__ == "__main__":
    main()
