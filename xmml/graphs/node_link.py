"""Graphs as JSON in the node-link form: what networkx, D3 and others exchange.

```
{"directed": true, "multigraph": true,
 "graph": {"view": "coupling", "id": ...},
 "nodes": [{"id": "macro", ...}],
 "edges": [{"source": "macro", "target": "micro", "key": 0, ...}]}
```

Only a multigraph has keys. `networkx.node_link_graph(json.load(file), edges="edges")` reads it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx


def node_link(graph: networkx.Graph) -> str:
    """Return a graph as a JSON document, a line for each node and edge. Linear in nodes, edges and attributes."""
    if graph.is_multigraph():
        edges: Iterable[object] = (
            {"source": tail, "target": head, "key": key, **attributes}
            for tail, head, key, attributes in graph.edges(keys=True, data=True)
        )
    else:
        edges = ({"source": tail, "target": head, **attributes} for tail, head, attributes in graph.edges(data=True))
    nodes = ({"id": name, **attributes} for name, attributes in graph.nodes(data=True))
    return (
        f'{{"directed": {_json(graph.is_directed())},\n "multigraph": {_json(graph.is_multigraph())},\n'
        f' "graph": {_json(graph.graph)},\n "nodes": {_list(nodes)},\n "edges": {_list(edges)}}}\n'
    )


def _list(rows: Iterable[object]) -> str:
    return "[" + ",".join(f"\n  {_json(row)}" for row in rows) + "]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
