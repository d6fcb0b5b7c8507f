"""What a canal shows at its end, and what leaves it there: the Python side of canal.hpp, for junctions and gates.

Plain floats in the same order as in C++, so that both give the same bits.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

GRAVITY = 9.81  # m/s^2


class Edge(NamedTuple):
    """What a section shows of itself at one of its ends."""

    level: float  # of the water [m above datum]
    depth: float  # m
    discharge: float  # towards the end, out of the section [m^3/s]
    width: float  # m

    @classmethod
    def of(cls, data: np.ndarray) -> "Edge":
        """The edge in a message."""
        return cls(*data.tolist())

    @property
    def conveyance(self) -> float:
        """By how much the discharge falls when the level rises by one metre [m^2/s]: waves run with sqrt(g h)."""
        return self.width * sqrt(GRAVITY * self.depth)

    def amount(self, level: float, discharge: float, dt: float) -> np.ndarray:
        """Volume [m^3] and impulse [m^4/s] that pass in dt seconds, at this level and discharge."""
        depth = self.depth + (level - self.level)
        momentum = discharge * discharge / (self.width * depth) + 0.5 * GRAVITY * self.width * depth * depth
        return np.array([discharge * dt, momentum * dt])
