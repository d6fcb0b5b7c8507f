"""Which dimensions arrays of a submodel have: its spacescales, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xmml.run_options import Decomposition
from xmml.scales import Scale, dimension_names


def array_dimensions(spacescales: Iterable[Scale]) -> list[tuple[str, Scale]]:
    """Return name and scale of every dimension; a scale of several dimensions stands for as many."""
    scales = list(spacescales)
    further: dict[str, list[str]] = {scale.id: [] for scale in scales}
    for name, scale in dimension_names(scales).items():
        if name != scale.id:
            further[scale.id].append(name)
    return [(name, scale) for scale in scales for name in (scale.id, *further[scale.id])]


def cut_dimensions(decomposition: Decomposition, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the number of each dimension that is cut, and into how many parts.

    Raises:
        KeyError: a dimension is neither one of the names nor a number.
    """
    cuts = []
    for name, parts in decomposition:
        if name not in names and not name.isdecimal():
            raise KeyError(name)
        cuts.append((names.index(name) if name in names else int(name), parts))
    return tuple(cuts)


def whole_shape(spacescales: Iterable[Scale]) -> tuple[int, ...]:
    """Return the extents of the whole array in its first dimensions, as far as the scales give whole numbers."""
    shape = []
    for _, scale in array_dimensions(spacescales):
        if not scale.exact_steps:
            break
        shape.append(scale.exact_steps)
    return tuple(shape)
