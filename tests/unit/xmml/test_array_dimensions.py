"""Which dimensions arrays of a submodel have."""

from __future__ import annotations

from fractions import Fraction

import pytest

from xmml.array_dimensions import array_dimensions, cut_dimensions, whole_shape
from xmml.scales import Range, Scale
from xmml.units import Dimension, Quantity


def scale(name: str, delta: float = 1, total: float = 10, dimensions: int | None = None) -> Scale:
    ends = [Range.of(Quantity(Fraction(value), Dimension.SPACE)) for value in (delta, total)]
    return Scale(name, "space", ends[0], ends[1], dimensions=dimensions)


def test_a_scale_of_two_dimensions_stands_for_two() -> None:
    names = [name for name, _ in array_dimensions([scale("x", dimensions=2), scale("z")])]
    assert names == ["x", "y", "z"]


def test_cuts_are_named_or_numbered() -> None:
    assert cut_dimensions((("y", 4), ("0", 2)), ["x", "y"]) == ((1, 4), (0, 2))
    with pytest.raises(KeyError):
        cut_dimensions((("z", 4),), ["x", "y"])


def test_the_shape_is_known_as_far_as_the_scales_give_whole_numbers() -> None:
    assert whole_shape([scale("x"), scale("y", 0.5, 4)]) == (10, 8)
    assert whole_shape([scale("x"), scale("y", 3, 10), scale("z")]) == (10,)
    assert whole_shape([]) == ()
