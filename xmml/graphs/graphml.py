"""Graphs as GraphML: for networkx, yEd, Gephi and what else reads it.

GraphML gives every attribute one type. Where the values of one attribute differ in type, whole numbers become
floating-point numbers, and anything else becomes text.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import networkx


def graphml(graph: networkx.Graph) -> str:
    """Return a graph as a GraphML document. Linear in nodes, edges and attributes."""
    import networkx

    uniform = graph.copy()
    _unify([uniform.graph])
    _unify(attributes for _, attributes in uniform.nodes(data=True))
    _unify(attributes for _, _, attributes in uniform.edges(data=True))
    stream = io.BytesIO()
    networkx.write_graphml_lxml(uniform, stream, named_key_ids=False)
    return stream.getvalue().decode("utf-8")


def _unify(rows: Iterable[dict[str, Any]]) -> None:
    rows = list(rows)
    types: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            types.setdefault(name, set()).add(type(value))
    mixed = {name: _common(found) for name, found in types.items() if len(found) > 1}
    for row in rows:
        for name in row.keys() & mixed.keys():
            row[name] = mixed[name](row[name])


def _common(types: set[type]) -> Any:
    return float if types == {int, float} else _text


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
