"""Decompositions: E28 for those that fit neither the ranks of the program nor the scales, and for filters that need
whole arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xmml.array_dimensions import array_dimensions, cut_dimensions
from xmml.checks.index import End, Index, ports_of
from xmml.definitions import read_scales
from xmml.problems import Problem, did_you_mean
from xmml.run_options import Decomposition, run_options, settings_of
from xmml.tree import RUN, Element

#: The built-in filters that look at more than one value of an array, or at its bytes.
_NEED_WHOLE_ARRAYS = frozenset({"linearinterpolation", "chunk", "dechunk"})


def dimensions_exist(index: Index) -> Iterator[Problem]:
    """The dimensions that are cut are spacescales of the submodel, or numbers, each once."""
    for definition, port, decomposition in _decomposed(index):
        names = [name for name, _ in array_dimensions(read_scales(definition, "space"))]
        try:
            numbers = [number for number, _ in cut_dimensions(decomposition, names)]
        except KeyError as error:
            unknown = error.args[0]
            help = did_you_mean(unknown, names, "spacescales") if names else "number the dimensions of the array from 0"
            message = f'"{definition.get("id")}" has no dimension "{unknown}" that could be cut'
            yield port.problem("E28", message, help, "decomp", RUN)
            continue
        if len(set(numbers)) < len(numbers):
            help = 'write each dimension once: "block(x:4,y:2)" makes 8 parts'
            yield port.problem("E28", "a dimension is cut twice", help, "decomp", RUN)


def parts_are_ranks(index: Index) -> Iterator[Problem]:
    """There is one part for each rank of the program."""
    for definition, port, decomposition in _decomposed(index):
        parts = math.prod(number for _, number in decomposition)
        if definition.name != "submodel":
            message = f"a {definition.name} has no ranks that an array could be spread over"
            yield port.problem("E28", message, "remove run:decomp", "decomp", RUN)
            continue
        implementation = definition.first("implementation")
        ranks = (run_options(implementation).mpi or 1) if implementation is not None else 1
        if parts != ranks:
            has = f"has {ranks} rank{'s' if ranks > 1 else ''}"
            message = f'this makes {parts} parts, but the program of "{definition.get("id")}" {has}'
            help = f'cut it into {ranks} parts, or write run:mpi="{parts}" on the implementation'
            yield port.problem("E28", message, help, "decomp", RUN)


def filters_work_on_parts(index: Index) -> Iterator[Problem]:
    """Filters of a coupling whose arrays travel in parts work value by value, and run in the two programs."""
    for coupling, sender, receiver in index.coupled:
        parallel = next((end for end in (sender, receiver) if end is not None and _decomposition(end[1])), None)
        if parallel is None:
            continue
        for apply in coupling.named("apply"):
            name = apply.get("filter") or ""
            definition = index.filters.get(name)
            if definition is not None and (why := _needs_whole_arrays(definition)):
                where = f'"{_name_of(parallel)}" is spread over ranks (run:decomp)'
                help = "apply it in a mapper or submodel that has the whole array"
                yield apply.problem("E28", f'the filter "{name}" {why}, but {where}', help, "filter")


def _needs_whole_arrays(definition: Element) -> str:
    class_, name = definition.get("class"), definition.get("id") or ""
    if ":" in (class_ or "") or definition.first("implementation") is not None:
        return "runs by itself and would need the whole array"
    return "needs the whole array" if (class_ or name) in _NEED_WHOLE_ARRAYS else ""


def _name_of(end: End) -> str:
    return f"{end[0].id}.{end[1].get('id')}"


def _decomposed(index: Index) -> Iterator[tuple[Element, Element, Decomposition]]:
    for definition in index.definition_elements:
        for port in ports_of(definition):
            if decomposition := _decomposition(port):
                yield definition, port, decomposition


def _decomposition(port: Element) -> Decomposition:
    decomposition: Decomposition = settings_of(port).get("decomp", ())
    return decomposition
