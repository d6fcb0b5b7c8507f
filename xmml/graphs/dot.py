"""Drawings for Graphviz: nodes, edges and nested clusters as values, and their text in the DOT language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from xmml.late_dataclass import dataclass

Attributes = Mapping[str, str]


class Html(str):
    """An HTML-like label: written as it is, between angle brackets."""

    __slots__ = ()


def _none() -> Attributes:
    return MappingProxyType({})


@dataclass(frozen=True)
class Node:
    """A node of a drawing."""

    name: str
    attributes: Attributes = field(default_factory=_none)


@dataclass(frozen=True)
class Edge:
    """An edge from one node to another."""

    tail: str
    head: str
    attributes: Attributes = field(default_factory=_none)


@dataclass(frozen=True)
class Cluster:
    """Nodes, and clusters of nodes, that are drawn in one frame; its name is unique in the drawing."""

    name: str
    attributes: Attributes = field(default_factory=_none)
    items: Sequence[Node | Cluster] = ()
    edges: Sequence[Edge] = ()


@dataclass(frozen=True)
class Drawing:
    """A directed graph to be laid out by Graphviz.

    Attributes:
        attributes, node_attributes, edge_attributes: of the graph, and what its nodes and edges have by default.
        content: the nodes, edges and clusters of the outermost level.
        last: nodes and edges that are written at the very end, after all clusters.
    """

    attributes: Attributes
    node_attributes: Attributes
    edge_attributes: Attributes
    content: Cluster
    last: Sequence[Node | Edge] = ()


def dot_text(drawing: Drawing) -> str:
    """Return the drawing in the DOT language. Linear in its size; clusters may be nested to any depth."""
    return "\n".join(_lines(drawing)) + "\n"


def escaped(text: str) -> str:
    """Return text for the inside of an HTML-like label; a backslash would begin an escape there."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("\\", "&#92;")):
        text = text.replace(character, entity)
    return "".join(character if character.isprintable() else " " for character in text)


def literal(text: str) -> str:
    """Return text that stands for itself in a plain label or tooltip, where a backslash would begin an escape."""
    return text.replace("\\", "\\\\")


def _lines(drawing: Drawing) -> Iterator[str]:
    yield "digraph G {"
    for kind, attributes in (
        ("graph", drawing.attributes),
        ("node", drawing.node_attributes),
        ("edge", drawing.edge_attributes),
    ):
        if attributes:
            yield f"    {kind}{_list(attributes)};"
    yield from _content(drawing.content)
    for one in drawing.last:
        yield f"    {_node(one) if isinstance(one, Node) else _edge(one)}"
    yield "}"


def _content(outermost: Cluster) -> Iterator[str]:
    # A stack, not recursion: domains may be nested deeper than Python calls. Strings are finished lines.
    waiting: list[tuple[int, Cluster | str]] = [(1, outermost)]
    while waiting:
        depth, one = waiting.pop()
        if isinstance(one, str):
            yield "    " * depth + one
            continue
        if one is not outermost:
            yield "    " * depth + f"subgraph {_quoted('cluster_' + one.name)} {{"
            waiting.append((depth, "}"))
            depth += 1
            for name, value in one.attributes.items():
                yield "    " * depth + f"{name}={_quoted(value)};"
        waiting += [(depth, _edge(edge)) for edge in reversed(one.edges)]
        waiting += [(depth, _node(item) if isinstance(item, Node) else item) for item in reversed(one.items)]


def _node(node: Node) -> str:
    return f"{_quoted(node.name)}{_list(node.attributes)};"


def _edge(edge: Edge) -> str:
    return f"{_quoted(edge.tail)}->{_quoted(edge.head)}{_list(edge.attributes)};"


def _list(attributes: Attributes) -> str:
    if not attributes:
        return ""
    return "[" + ", ".join(f"{name}={_quoted(value)}" for name, value in attributes.items()) + "]"


def _quoted(text: str) -> str:
    if isinstance(text, Html):
        return f"<{text}>"
    return '"' + text.replace('"', '\\"').replace("\r", " ").replace("\n", "\\n") + '"'
