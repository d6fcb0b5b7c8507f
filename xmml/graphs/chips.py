"""Places for names in boxes, so that no name lies on another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from xmml.late_dataclass import dataclass

Frame = tuple[float, float, float, float]

#: Distance from the border of the box, and between names [points].
_GAP = 6.0


@dataclass(frozen=True)
class Chip:
    """The place of a name: its centre and size [points]."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> float:
        """Its left side."""
        return self.x - self.width / 2

    @property
    def bottom(self) -> float:
        """Its lower side."""
        return self.y - self.height / 2

    def overlaps(self, other: Chip) -> bool:
        """Whether two names lie on each other."""
        return (
            abs(self.x - other.x) < (self.width + other.width) / 2
            and abs(self.y - other.y) < (self.height + other.height) / 2
        )


def placed(boxes: Sequence[Frame], sizes: Sequence[tuple[float, float]], window: Frame) -> list[Chip]:
    """Return a place for the name of every box: in one of its corners if that is free, else below each other.

    Small boxes choose first, for they have the fewest places. Quadratic in the number of boxes.

    Args:
        boxes: left, bottom, right, top of each box [points].
        sizes: width and height of each name [points].
        window: what is visible; names stay in it as far as there is room.
    """
    order = sorted(range(len(boxes)), key=lambda number: (_area(boxes[number]), number))
    chips: dict[int, Chip] = {}
    for number in order:
        taken = list(chips.values())
        chips[number] = next(
            chip
            for chip in _candidates(boxes[number], sizes[number], window)
            if not any(chip.overlaps(other) for other in taken)
        )
    return [chips[number] for number in range(len(boxes))]


def _area(box: Frame) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _candidates(box: Frame, size: tuple[float, float], window: Frame) -> Iterator[Chip]:
    left, bottom, right, top = box
    width, height = size
    inner_x = (left + _GAP + width / 2, right - _GAP - width / 2)
    inner_y = (top - _GAP - height / 2, bottom + _GAP + height / 2)
    if right - left >= width + 2 * _GAP and top - bottom >= height + 2 * _GAP:
        yield from (_within(Chip(x, y, width, height), window) for y in inner_y for x in inner_x)
    middle = (left + right) / 2
    for y in (top + _GAP + height / 2, bottom - _GAP - height / 2):
        yield _within(Chip(middle, y, width, height), window)
    corner = _within(Chip(inner_x[0], top, width, height), window)
    for row in count():
        yield Chip(corner.x, inner_y[0] - row * height / 2, width, height)


def _within(chip: Chip, window: Frame) -> Chip:
    x = min(max(chip.x, window[0] + chip.width / 2), max(window[2] - chip.width / 2, window[0] + chip.width / 2))
    y = min(max(chip.y, window[1] + chip.height / 2), max(window[3] - chip.height / 2, window[1] + chip.height / 2))
    return Chip(x, y, chip.width, chip.height)
