"""What is made of fields. Nothing here knows of files or of pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from requirements import Request


@dataclass(frozen=True)
class Grid:
    """The points of a field, rows from north to south; columns go around the globe.

    Attributes:
        north, west: the first point [degrees].
        d_lat, d_lon: spacing [degrees].
        rows, columns: how many points there are.
    """

    north: float
    west: float
    d_lat: float
    d_lon: float
    rows: int
    columns: int

    @classmethod
    def of(cls, area: Sequence[float], spacing: Sequence[float], shape: Sequence[int]) -> Grid:
        """Return the grid that MARS describes by `area` (north, west, south, east) and `grid`."""
        return cls(area[0], area[1], spacing[1], spacing[0], shape[0], shape[1])

    def rows_of(self, north: float, south: float) -> np.ndarray:
        """Return the rows from north to south, both included."""
        first = np.ceil((self.north - north) / self.d_lat - 1e-9)
        last = np.floor((self.north - south) / self.d_lat + 1e-9)
        return np.arange(max(0, int(first)), min(self.rows - 1, int(last)) + 1)

    def columns_of(self, west: float, east: float) -> np.ndarray:
        """Return the columns from west to east, both included, also where they lead across the first one."""
        first = np.ceil((west - self.west) / self.d_lon - 1e-9)
        last = np.floor((east - self.west) / self.d_lon + 1e-9)
        return np.arange(int(first), int(last) + 1) % self.columns

    def latitudes(self, rows: np.ndarray) -> np.ndarray:
        return self.north - self.d_lat * rows


def crop(field: np.ndarray, grid: Grid, area: Sequence[float]) -> np.ndarray:
    """Return the points of a field in an area."""
    north, west, south, east = area
    return field[np.ix_(grid.rows_of(north, south), grid.columns_of(west, east))]


def interpolate(field: np.ndarray, grid: Grid, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
    """Return a field at points, bilinear between the four around each; beyond the outermost rows it is as there."""
    row = np.clip((grid.north - lat) / grid.d_lat, 0, grid.rows - 1)
    column = ((lon - grid.west) / grid.d_lon) % grid.columns
    above, left = np.minimum(row.astype(int), grid.rows - 2), column.astype(int) % grid.columns
    right, down, along = (left + 1) % grid.columns, row - above, column - np.floor(column)
    upper = field[above, left] * (1 - along) + field[above, right] * along
    lower = field[above + 1, left] * (1 - along) + field[above + 1, right] * along
    return upper * (1 - down) + lower * down


def weights(grid: Grid, area: Sequence[float]) -> np.ndarray:
    """Return the share of each row of a crop in its surface, as a column."""
    shares = np.cos(np.radians(grid.latitudes(grid.rows_of(area[0], area[2]))))
    return shares[:, np.newaxis] / shares.sum()


def target(request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Return the latitudes and longitudes of the grid that a request names, from its northwestern point on."""
    north, west, south, east = request.area
    d_lon, d_lat = request.grid
    return np.arange(north, south - 1e-9, -d_lat), np.arange(west, east + 1e-9, d_lon)


def extent(request: Request, grid: Grid) -> dict[str, list[float]]:
    """Return where a product lies, as MARS says it: the outermost points, and their spacing if they form a grid."""
    match request.product:
        case "point":
            return {"area": [*request.at, *request.at]}
        case "mean" | "above":
            return {"area": list(request.area)}
        case "grid":
            lat, lon = target(request)
            return {
                "area": [float(degrees) for degrees in (lat[0], lon[0], lat[-1], lon[-1])],
                "grid": list(request.grid),
            }
    north, west, south, east = request.area
    latitudes = grid.latitudes(grid.rows_of(north, south))
    first = grid.west + grid.d_lon * float(np.ceil((west - grid.west) / grid.d_lon - 1e-9))
    last = first + grid.d_lon * (len(grid.columns_of(west, east)) - 1)
    return {"area": [float(latitudes[0]), first, float(latitudes[-1]), last], "grid": [grid.d_lon, grid.d_lat]}


def make(request: Request, field: np.ndarray, grid: Grid) -> np.ndarray | float:
    """Return the product of a field of one member."""
    match request.product:
        case "point":
            return float(interpolate(field, grid, *map(np.array, request.at)))
        case "crop":
            return crop(field, grid, request.area)
        case "grid":
            return interpolate(field, grid, *np.meshgrid(*target(request), indexing="ij"))
        case "mean":
            return float((crop(field, grid, request.area) * weights(grid, request.area)).mean(axis=1).sum())
        case "above":
            exceeds = crop(field, grid, request.area) > request.threshold
            return float((exceeds * weights(grid, request.area)).mean(axis=1).sum())
    raise ValueError(f"there is no product {request.product}")


class Ensemble:
    """The members of one field so far: mean, spread (by Welford's recurrence), and how many exceed each threshold."""

    def __init__(self, requests: Sequence[Request], total: int) -> None:
        self.requests, self.total, self.count = requests, total, 0
        self.mean: np.ndarray | float = 0.0
        self.squares: np.ndarray | float = 0.0
        self.above: dict[float, np.ndarray | int] = {
            request.threshold: 0 for request in requests if request.threshold is not None
        }

    def add(self, field: np.ndarray) -> bool:
        """Take a member's field, and return whether it was the last."""
        self.count += 1
        difference = field - self.mean
        self.mean = self.mean + difference / self.count
        self.squares = self.squares + difference * (field - self.mean)
        for threshold in self.above:
            self.above[threshold] = self.above[threshold] + (field > threshold)
        return self.count == self.total

    def make(self, request: Request, grid: Grid) -> np.ndarray:
        """Return the product of the whole ensemble."""
        match request.product:
            case "em":
                return crop(np.asarray(self.mean), grid, request.area)
            case "es":
                return crop(np.sqrt(self.squares / self.total), grid, request.area)
            case "ep" if request.threshold is not None:
                return crop(np.asarray(self.above[request.threshold]) / self.total, grid, request.area)
        raise ValueError(f"there is no product {request.product} of an ensemble")
