"""Graphs as GraphML: for networkx, yEd, Gephi and what else reads it.

GraphML gives every attribute one type. Where the values of one attribute differ in type, whole numbers become
floating-point numbers, and anything else becomes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    import networkx

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""
_TYPES: Mapping[type, str] = {bool: "boolean", int: "long", float: "double", str: "string"}


def graphml(graph: networkx.Graph) -> str:
    """Return a graph as a GraphML document. Linear in nodes, edges and attributes.

    The keys of a multigraph become the ids of its edges; they must all be different.
    """
    return "".join(_pieces(graph))


def _pieces(graph: networkx.Graph) -> Iterator[str]:
    of_graph = _Attributes("graph", [graph.graph], 0)
    of_nodes = _Attributes("node", (given for _, given in graph.nodes(data=True)), len(of_graph))
    edges = (given for *_, given in graph.edges(data=True))
    of_edges = _Attributes("edge", edges, len(of_graph) + len(of_nodes))
    yield _HEAD
    for attributes in (of_graph, of_nodes, of_edges):
        yield from attributes.declarations()
    yield f'<graph edgedefault="{"directed" if graph.is_directed() else "undirected"}">\n'
    yield from of_graph.data(graph.graph)
    for name, given in graph.nodes(data=True):
        yield f"<node id={quoteattr(str(name))}>"
        yield from of_nodes.data(given)
        yield "</node>\n"
    if graph.is_multigraph():
        for tail, head, key, given in graph.edges(keys=True, data=True):
            yield f"<edge id={quoteattr(str(key))} source={quoteattr(str(tail))} target={quoteattr(str(head))}>"
            yield from of_edges.data(given)
            yield "</edge>\n"
    else:
        for tail, head, given in graph.edges(data=True):
            yield f"<edge source={quoteattr(str(tail))} target={quoteattr(str(head))}>"
            yield from of_edges.data(given)
            yield "</edge>\n"
    yield "</graph>\n</graphml>\n"


class _Attributes:
    """The attributes of all nodes (or edges): their types, and the short keys that the document calls them by."""

    def __init__(self, domain: str, rows: Iterable[Mapping[str, Any]], first: int) -> None:
        self.domain = domain
        types: dict[str, set[type]] = {}
        for row in rows:
            for name, value in row.items():
                types.setdefault(name, set()).add(type(value))
        self.types = {name: _common(found) for name, found in types.items()}
        self.keys = {name: f"d{number}" for number, name in enumerate(self.types, first)}

    def __len__(self) -> int:
        return len(self.keys)

    def declarations(self) -> Iterator[str]:
        for name, key in self.keys.items():
            type_ = _TYPES[self.types[name]]
            yield f'<key id="{key}" for="{self.domain}" attr.name={quoteattr(name)} attr.type="{type_}"/>\n'

    def data(self, row: Mapping[str, Any]) -> Iterator[str]:
        for name, value in row.items():
            yield f'<data key="{self.keys[name]}">{_text(value, self.types[name])}</data>'


def _common(types: set[type]) -> type:
    if len(types) == 1:
        return next(iter(types))
    return float if types == {int, float} else str


def _text(value: Any, type_: type) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(str(type_(value)))
