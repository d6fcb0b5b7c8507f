"""Draws products of a finished run, which it finds in the archive by selectors.

python products.py RUN [FOLDER]       pictures are put into FOLDER (RUN, if it is not given)

plumes.png         temperature at 850 hPa at each place, a line for each member
ensemble.png       mean and spread of the height of 500 hPa, and the probability of wind, in the last hour
"""

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np

import xmml
from xmml import Archive, ArchivedObject

matplotlib.use("Agg")
from matplotlib import pyplot


def plumes(archive: Archive, picture: Path) -> None:
    lines: dict[str, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for point in archive.select("product = 'point' and param = 't' and levelist = 850"):
        lines[point["place"]][point["number"]].append((point["step"], point.data))
    figure, panels = pyplot.subplots(
        2, (len(lines) + 1) // 2, figsize=(12, 5), sharex=True, layout="constrained", squeeze=False
    )
    for panel, (place, members) in zip(panels.flat, sorted(lines.items()), strict=False):
        for number, points in members.items():
            hours, values = np.array(sorted(points)).T
            control = number == 0
            panel.plot(
                hours, values - 273.15, color="black" if control else "tab:blue", linewidth=2 if control else 0.8
            )
        panel.set_title(place)
    figure.supxlabel("hour of the forecast (black: the control)")
    figure.supylabel("temperature at 850 hPa [°C]")
    figure.savefig(picture, dpi=120)


def ensemble(archive: Archive, picture: Path) -> None:
    last = max(each["step"] for each in archive.select("product = 'em'"))

    def one(selector: str) -> ArchivedObject:
        return next(iter(archive.select(f"step = $last and {selector}", {"last": last})))

    mean, spread = (one(f"product = '{name}' and param = 'z'") for name in ("em", "es"))
    windy = one("product = 'ep' and threshold = 10.0")
    figure, panels = pyplot.subplots(2, figsize=(10, 6), sharex=True, layout="constrained")
    for panel, product, title, colours in (
        (panels[0], spread, "height of 500 hPa [m]: mean (lines) and spread", "YlOrRd"),
        (panels[1], windy, f"probability of wind above {windy['threshold']:g} m/s", "Blues"),
    ):
        north, west, south, east = product["area"]
        shown = panel.imshow(product.data, extent=(west, east, south, north), cmap=colours, aspect="auto")
        figure.colorbar(shown, ax=panel)
        panel.set_title(title)
        panel.set_ylabel("latitude")
    rows, columns = mean.data.shape
    north, west, south, east = mean["area"]
    lon, lat = np.linspace(west, east, columns), np.linspace(north, south, rows)
    panels[0].contour(lon, lat, mean.data, colors="black", linewidths=0.7)
    panels[1].set_xlabel("longitude")
    figure.suptitle(f"{mean['date']:%Y-%m-%d %H UTC} + {last} h")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    run, folder = Path(sys.argv[1]), Path(sys.argv[-1])
    with xmml.open_archive(str(run / "instances/archive/work/forecast.archive")) as archive:
        plumes(archive, folder / "plumes.png")
        ensemble(archive, folder / "ensemble.png")
        print(f"pictures: {folder.resolve() / 'plumes.png'}, {folder.resolve() / 'ensemble.png'}")
