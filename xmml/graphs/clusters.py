"""Nodes and edges of a drawing in nested frames, one for each domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml.graphs.dot import Cluster, Edge, Node
from xmml.graphs.palette import CLUSTER_FILL, CLUSTER_LINE, QUIET_INK

#: Frames are not nested deeper than this; what lies deeper stands in the deepest frame.
DEEPEST = 24

_Path = tuple[str, ...]


def clustered(domains: Mapping[str, str | None], nodes: Sequence[Node], edges: Sequence[Edge]) -> Cluster:
    """Return nodes in the clusters of their domains, each edge in the innermost one that holds both its ends.

    Nodes and clusters stay in the order of the nodes: Graphviz breaks cycles in the order in which it reads them.
    A cluster is named after the full path of its domain (`artery.tissue`), for two domains may have parts of the same
    name. Linear in nodes and edges.

    Args:
        domains: the dotted domain of each node, by its name; `None` stands outside of all frames.
    """
    paths = {name: _path(domain) for name, domain in domains.items()}
    edges_in: dict[_Path, list[Edge]] = {}
    for edge in edges:
        edges_in.setdefault(_common(paths[edge.tail], paths[edge.head]), []).append(edge)
    items_in: dict[_Path, list[Node | _Path]] = {(): []}
    for node in nodes:
        path = paths[node.name]
        for length in range(1, len(path) + 1):
            if path[:length] not in items_in:
                items_in[path[:length]] = []
                items_in[path[: length - 1]].append(path[:length])
        items_in[path].append(node)

    def cluster(path: _Path) -> Cluster:
        return Cluster(
            name=".".join(path),
            attributes=_frame(path) if path else {},
            items=tuple(item if isinstance(item, Node) else cluster(item) for item in items_in[path]),
            edges=edges_in.get(path, ()),
        )

    return cluster(())


def _path(domain: str | None) -> _Path:
    return tuple(domain.split(".", DEEPEST)[:DEEPEST]) if domain else ()


def _common(one: _Path, other: _Path) -> _Path:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return one[:length]


def _frame(path: _Path) -> dict[str, str]:
    return {
        "label": path[-1],
        "labeljust": "l",
        "labelloc": "t",
        "style": "rounded,dashed,filled",
        "fillcolor": CLUSTER_FILL if len(path) % 2 else "#ffffff",
        "color": CLUSTER_LINE,
        "fontcolor": QUIET_INK,
        "fontsize": "12",
        "margin": "14",
        "tooltip": ".".join(path),
    }
