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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx


def node_link(graph: networkx.Graph) -> str:
    """Return a graph as a JSON document. Linear in nodes, edges and attributes."""
    if graph.is_multigraph():
        edges = [
            {**attributes, "source": tail, "target": head, "key": key}
            for tail, head, key, attributes in graph.edges(keys=True, data=True)
        ]
    else:
        edges = [{**attributes, "source": tail, "target": head} for tail, head, attributes in graph.edges(data=True)]
    value = {
        "directed": graph.is_directed(),
        "multigraph": graph.is_multigraph(),
        "graph": dict(graph.graph),
        "nodes": [{**attributes, "id": name} for name, attributes in graph.nodes(data=True)],
        "edges": edges,
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
