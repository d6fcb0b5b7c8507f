"""Arrows between modules, and the rules for arrows in every language.

Each rule returns its problems as texts: offenders that the list does not name, and lines of the list to remove.
A line of the list is `rule: source -> target`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import networkx


@dataclass(frozen=True)
class Arrow:
    """One name that a module takes from another module."""

    source: str
    target: str
    name: str
    #: File and line, `xmml/check.py:12`.
    place: str
    #: The import stands below `if TYPE_CHECKING:`.
    for_types: bool = False


def cycles(rule: str, arrows: Iterable[Arrow], listed: set[str], group: Callable[[str], str] = str) -> list[str]:
    """Return the problems with cycles among the nodes that `group` makes of modules.

    Without the listed arrows there must be no cycle, and each listed arrow must close one.
    """
    crossing = _by_line(rule, [arrow for arrow in arrows if not arrow.for_types], group)
    edges = {line: (group(names[0].source), group(names[0].target)) for line, names in crossing.items()}
    graph = networkx.DiGraph(edge for line, edge in edges.items() if line not in listed)
    problems = []
    for component in networkx.strongly_connected_components(graph):
        knot = graph.subgraph(component)
        if knot.edges:
            way = min((networkx.shortest_path(knot, end, start) for start, end in knot.edges), key=len)
            lines = [f"{rule}: {source} -> {target}" for source, target in zip(way, way[1:] + way[:1], strict=True)]
            problems += ["new cycle; one of its arrows must go:", *(_described(line, crossing[line]) for line in lines)]
    closing = set()
    graph.add_nodes_from(node for edge in edges.values() for node in edge)
    for line in sorted(listed & edges.keys()):
        start, end = edges[line]
        if networkx.has_path(graph, end, start):
            closing.add(line)
        else:
            graph.add_edge(start, end)
    return problems + _to_remove(rule, listed, closing)


def not_downward(
    rule: str, arrows: Iterable[Arrow], listed: set[str], floor: Callable[[str], int], unit: Callable[[str], str] = str
) -> list[str]:
    """Return the problems with arrows to a higher floor, or to another unit (package or crate) of the same floor."""
    wrong = []
    for arrow in arrows:
        climb = floor(arrow.target) - floor(arrow.source)
        if climb > 0 or (climb == 0 and unit(arrow.source) != unit(arrow.target)):
            wrong.append(arrow)
    return forbidden(rule, wrong, listed)


def forbidden(rule: str, arrows: Iterable[Arrow], listed: set[str]) -> list[str]:
    """Return the problems with arrows each of which breaks the rule by itself."""
    crossing = _by_line(rule, arrows, str)
    new = [_described(line, names) for line, names in sorted(crossing.items()) if line not in listed]
    return new + _to_remove(rule, listed, {*crossing})


def _by_line(rule: str, arrows: Iterable[Arrow], group: Callable[[str], str]) -> dict[str, list[Arrow]]:
    crossing: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        source, target = group(arrow.source), group(arrow.target)
        if source != target:
            crossing.setdefault(f"{rule}: {source} -> {target}", []).append(arrow)
    return crossing


def _described(line: str, arrows: list[Arrow]) -> str:
    return "\n    ".join([line, *(f"{arrow.place} takes {arrow.name or arrow.target}" for arrow in arrows)])


def _to_remove(rule: str, listed: set[str], offending: set[str]) -> list[str]:
    gone = sorted(line for line in listed - offending if line.startswith(f"{rule}: "))
    return [f"no longer an offender; remove this line from known_offenders.txt:\n    {line}" for line in gone]
