"""Reads the requirement file: what products are wanted of which fields."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

#: What a field is called: param, level (0 at the surface), step, and member (None: all of the ensemble).
Key = tuple[str, int, int, int | None]
#: Products of the ensemble, of which a member alone knows nothing.
OF_ENSEMBLE = ("em", "es", "ep")


@dataclass(frozen=True)
class Request:
    """One product of one field.

    Attributes:
        number: which request of the file it is.
        product: point, crop, grid, mean, above, em, es or ep.
        place: its name, for a point.
        at: latitude and longitude of the place [degrees].
        area: north, west, south, east [degrees].
        grid: spacing of longitudes and latitudes [degrees].
    """

    number: int
    product: str
    place: str | None = None
    at: tuple[float, ...] = ()
    area: tuple[float, ...] = ()
    grid: tuple[float, ...] = ()
    threshold: float | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """What its product is called, besides what its field is."""
        named = {"request": self.number, "product": self.product, "place": self.place, "threshold": self.threshold}
        return {name: value for name, value in named.items() if value is not None}


def read(file: Path) -> dict[Key, list[Request]]:
    """Return the requests for each field.

    Raises:
        ValueError: a line that cannot be read, with its number.
    """
    places: dict[str, tuple[float, ...]] = {}
    found: dict[Key, list[Request]] = defaultdict(list)
    count = 0
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        what, *words = (word.strip() for word in line.partition("#")[0].split(","))
        if not what:
            continue
        try:
            given = dict(word.split("=") for word in words)
            if what == "place":
                places[given["name"]] = numbers(given["at"])
                continue
            for key, settings in combinations(what, given):
                if "place" in settings:
                    settings["at"] = places[settings["place"]]
                found[key].append(Request(count, what, **settings))
                count += 1
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file}:{number}: this is no request ({error!r}): {line}") from error
    return dict(found)


def combinations(what: str, given: dict[str, str]) -> list[tuple[Key, dict[str, Any]]]:
    """Return the fields that a line names, and the settings of the request for each."""
    keys = product(
        listed(given.pop("param")),
        map(int, listed(given.pop("levelist", "0"))),
        map(int, listed(given.pop("step"))),
        [None] if what in OF_ENSEMBLE else map(int, listed(given.pop("number"))),
    )
    fixed = {name: numbers(given.pop(name)) for name in ("area", "grid") if name in given}
    lists: dict[str, list[Any]] = {}
    if "place" in given:
        lists["place"] = listed(given.pop("place"))
    if "threshold" in given:
        lists["threshold"] = [float(word) for word in listed(given.pop("threshold"))]
    if given:
        raise ValueError(f"unknown: {', '.join(given)}")
    each = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    return [(key, {**fixed, **settings}) for key, settings in product(keys, each)]


def listed(text: str) -> list[str]:
    """Return the values of `a/b/c` or `0/to/24/by/6`."""
    words = text.split("/")
    if len(words) > 1 and words[1] == "to":
        first, last, by = int(words[0]), int(words[2]), int(words[4]) if words[3:4] == ["by"] else 1
        return [str(value) for value in range(first, last + 1, by)]
    return words


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split("/"))
