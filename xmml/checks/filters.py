"""Filters: W08 for dimensions that nothing has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from xmml.analysis.filter_counts import TIME_NAMES
from xmml.checks.index import End, Index
from xmml.definitions import SCALE_DIMENSIONS, read_scales
from xmml.problems import Problem, did_you_mean
from xmml.scales import ScaleKind, dimension_names
from xmml.tree import Element


def known_dimensions(index: Index) -> Iterator[Problem]:
    """The dimension of a filter is the id of a scale: of a submodel that it stands between, or at least of any."""
    if not any(element.get("dimension") is not None for element in index.filter_elements):
        return
    every = set(TIME_NAMES).union(*map(scale_ids, [*index.definition_elements, *index.instance_elements]))
    unknown = set()
    for element in index.filter_elements:
        dimension = element.get("dimension")
        if dimension is not None and dimension not in every:
            unknown.add(element.get("id"))
            help = did_you_mean(dimension, every - TIME_NAMES, "scales")
            yield element.problem("W08", f'no submodel has a scale "{dimension}"', help, "dimension")
    for coupling, sender, receiver in index.coupled:
        for apply in coupling.named("apply"):
            definition = index.filters.get(apply.get("filter") or "")
            dimension = definition.get("dimension") if definition is not None else None
            if definition is None or dimension is None or definition.get("id") in unknown:
                continue
            known = _of_ends(sender, receiver)
            if known is not None and dimension not in known | TIME_NAMES:
                message = f'neither end of this coupling has a scale "{dimension}", which the filter works along'
                help = did_you_mean(dimension, known, "scales")
                note = f"the filter is in line {definition.position.line}"
                yield apply.problem("W08", message, help, "filter", note=note)


def _of_ends(*ends: End | None) -> set[str] | None:
    """Return the scales of both ends; `None` if one of them is no submodel, and stands for others."""
    known: set[str] = set()
    for end in ends:
        if end is None or end[0].kind != "submodel" or end[0].definition is None:
            return None
        known |= scale_ids(end[0].definition) | scale_ids(end[0].element)
    return known


def scale_ids(owner: Element) -> set[str]:
    """Return the ids of the scales of a submodel or instance, with those that unnamed ones get."""
    scales = [scale for kind in SCALE_DIMENSIONS for scale in read_scales(owner, cast(ScaleKind, kind))]
    return set(dimension_names(scales))
