"""Checks the products of a finished run: is there one of each request, and the same as made again of archived fields?

python compare.py RUN [FOLDER]       FOLDER: what by_files.py has made with the same model

Nothing of generation.py is used here: the points of areas are found by their coordinates, and interpolation is that of
numpy, along one axis after the other.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np
import requirements

import xmml

HERE = Path(__file__).parent
#: Products may differ by this much, of their largest value.
TOLERANCE = 1e-6


class Field:
    """A field with its coordinates."""

    def __init__(self, values: np.ndarray, area: list[float], grid: list[float]) -> None:
        self.values = values
        self.lat = np.linspace(area[0], area[2], values.shape[0])
        self.lon = area[1] + grid[0] * np.arange(values.shape[1])

    def within(self, area: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the values in an area, and their latitudes."""
        north, west, south, east = area
        rows = (self.lat < north + 1e-7) & (self.lat > south - 1e-7)
        from_west = (self.lon - west + 1e-7) % 360
        columns = np.argsort(from_west)[: np.count_nonzero(from_west < east - west + 2e-7)]
        return self.values[rows][:, columns], self.lat[rows]

    def at(self, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
        """Return the values where these latitudes and longitudes cross."""
        along = np.array([np.interp(lon, self.lon, row, period=360) for row in self.values])
        return np.array([np.interp(-lat, -self.lat, column) for column in along.T]).T


def expected(request: requirements.Request, members: list[Field]) -> np.ndarray:
    """Return a product: of the field of one member, or of those of all."""
    area = request.area
    match request.product:
        case "point":
            return members[0].at(*(np.array([degrees]) for degrees in request.at))[0, 0]
        case "grid":
            (north, west, south, east), (d_lon, d_lat) = area, request.grid
            lat = north - d_lat * np.arange(int((north - south) / d_lat + 1e-6) + 1)
            lon = west + d_lon * np.arange(int((east - west) / d_lon + 1e-6) + 1)
            return members[0].at(lat, lon)
    stack = np.array([member.within(area)[0] for member in members])
    weights = np.cos(np.deg2rad(members[0].within(area)[1]))
    match request.product:
        case "crop":
            return stack[0]
        case "mean":
            return np.average(stack[0].mean(axis=1), weights=weights)
        case "above":
            return np.average(np.mean(stack[0] > request.threshold, axis=1), weights=weights)
        case "em":
            return stack.mean(axis=0)
        case "es":
            return stack.std(axis=0)
        case "ep":
            return np.mean(stack > request.threshold, axis=0)
    raise ValueError(f"there is no product {request.product}")


def read(run: Path) -> tuple[dict[requirements.Key, Field], dict[int, list[np.ndarray]]]:
    """Return the fields in the archive of a run, and all products of each request."""
    fields: dict[requirements.Key, Field] = {}
    products: dict[int, list[np.ndarray]] = defaultdict(list)
    with xmml.open_archive(str(run / "instances/archive/work/forecast.archive")) as archive:
        for each in archive.select("has(request)"):
            products[each["request"]].append(np.asarray(each.data))
        for each in archive.select("not has(request)"):
            key = each["param"], each.get("levelist", 0), each["step"], each["number"]
            fields[key] = Field(each.data, each["area"], each["grid"])
    return fields, products


def asked(
    run: Path, fields: Collection[requirements.Key]
) -> dict[int, tuple[list[requirements.Key], requirements.Request]]:
    """Return the requests that the forecast of a run can meet, with the fields of which they are made."""
    with xmml.Instance.alone(run / "model.xmml", "member") as me:
        hours = {round(step * me.delta / 3600) for step in range(round(me.total / me.delta) + 1)}
        members = range(me.count)
    known = {key[:2] for key in fields}
    return {
        request.number: ([(param, level, step, each) for each in (members if number is None else [number])], request)
        for (param, level, step, number), requests in requirements.read(HERE / "requirements.txt").items()
        if (param, level) in known and step in hours and (number is None or number in members)
        for request in requests
    }


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference, relative to the largest value."""
    return float(np.abs(one - other).max() / (np.abs(other).max() or 1.0))


def main(run: Path, by_files: Path | None) -> int:
    fields, products = read(run)
    wanted = asked(run, fields)
    once = [number for number in wanted if len(products[number]) == 1]
    unasked = products.keys() - wanted.keys()
    print(f"{len(wanted)} requests, {len(once)} of which were met exactly once; {len(unasked)} products of no request")
    right = len(once) == len(wanted) and not unasked

    kinds, largest = Counter(), 0.0
    for number in once:
        keys, request = wanted[number]
        if keys[0] in fields:
            kinds[request.product] += 1
            largest = max(largest, difference(products[number][0], expected(request, [fields[key] for key in keys])))
    print(f"made again of archived fields: {', '.join(f'{count} {name}' for name, count in kinds.items())}")
    print(f"largest difference: {largest:.1e} of the largest value of a product")
    right = right and kinds.total() > 0 and largest < TOLERANCE

    if by_files is not None:
        files = {int(file.stem): np.load(file) for file in (by_files / "products").glob("*.npy")}
        common = [difference(files[number], products[number][0]) for number in files.keys() & set(once)]
        print(f"{len(files)} products by files, {common.count(0.0)} of them equal to the last bit")
        print(f"largest difference: {max(common):.1e} of the largest value of a product")
        right = right and files.keys() == set(once) and max(common) < TOLERANCE
    return 0 if right else 1


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None))
