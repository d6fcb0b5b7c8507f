"""The domains of a model as a tree: every dotted path with all that it is part of, and the instances in them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from xmml.graphs.attributes import flat
from xmml.graphs.dot import Cluster, Drawing, Edge, Html, Node, escaped, literal
from xmml.graphs.palette import CLUSTER_FILL, CLUSTER_LINE, FAINT_INK, FONT, INK, KINDS, PAPER, QUIET_INK
from xmml.graphs.quantity_text import shortened
from xmml.model import Instance, Model

if TYPE_CHECKING:
    import networkx

#: The root: what belongs to no domain. No path holds a colon.
ROOT = ":root"
#: Domains are not taken apart further than this.
DEEPEST = 64
#: Couplings between domains are drawn if so many pairs of domains have some.
MOST_LINES = 8
#: So many instances are written into a domain.
MOST_NAMES = 12

_GLYPHS = {"submodel": "■", "mapper": "⬢", "terminal": "▶"}


def domain_graph(model: Model) -> networkx.DiGraph:
    """Return the tree of domains: a node for every path and the root (`:root`), edges from the whole to its parts.

    Node attributes: `label` (last part of the path), `depth`, `instances` (their ids, separated by blanks) and
    `couplings` (between instances of this domain alone). Linear in instances, couplings and the length of the paths.
    """
    import networkx

    members = instances_by_domain(model)
    inside = Counter(
        one
        for coupling in model.couplings
        if (one := model.instances[coupling.sender.instance].domain or ROOT)
        == (model.instances[coupling.receiver.instance].domain or ROOT)
    )
    graph = networkx.DiGraph(view="domain", **flat({"id": model.id, "name": model.name}))
    for path, instances in members.items():
        graph.add_node(
            path,
            label=_last(path) if path != ROOT else "None",
            depth=len(_ancestry(path)) if path != ROOT else 0,
            instances=" ".join(instance.id for instance in instances),
            couplings=inside[path],
        )
        if path != ROOT:
            graph.add_edge(whole(path), path)
    return graph


def instances_by_domain(model: Model) -> dict[str, list[Instance]]:
    """Return the instances of every domain by its path, the whole before its parts, beginning with the root."""
    members: dict[str, list[Instance]] = {ROOT: []}
    for instance in model.instances.values():
        for path in _ancestry(instance.domain):
            members.setdefault(path, [])
        members[instance.domain or ROOT].append(instance)
    return members


def whole(path: str) -> str:
    """Return what a domain is part of."""
    ancestry = _ancestry(path)
    return ancestry[-2] if len(ancestry) > 1 else ROOT


def _ancestry(domain: str | None) -> list[str]:
    """Return all that a domain is part of, from the outside, and itself; the parts beyond the deepest level as one."""
    parts = domain.split(".", DEEPEST) if domain else []
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def domain_view(model: Model, direction: str = "TB") -> Drawing:
    """Return the drawing of the tree of domains; thin lines count the couplings between domains."""
    members = instances_by_domain(model)
    nodes = [Node(path, _attributes(path, instances, model)) for path, instances in members.items()]
    tree = [Edge(whole(path), path) for path in members if path != ROOT]
    return Drawing(
        attributes={
            "rankdir": direction,
            "nodesep": "0.4",
            "ranksep": "0.5",
            "pad": "0.25",
            "bgcolor": "white",
            "tooltip": literal(model.name or model.id),
        },
        node_attributes={"fontname": FONT, "fontsize": "13", "fontcolor": INK, "penwidth": "1.3", "margin": "0.2,0.1"},
        edge_attributes={
            "fontname": FONT,
            "fontsize": "9",
            "fontcolor": QUIET_INK,
            "color": FAINT_INK,
            "arrowhead": "vee",
            "arrowsize": "0.6",
            "penwidth": "1.3",
        },
        content=Cluster("", items=nodes, edges=[*tree, *_between(model)]),
    )


def _attributes(path: str, instances: list[Instance], model: Model) -> dict[str, str]:
    is_root = path == ROOT
    shape = {"shape": "box", "style": "filled" if is_root else "rounded,filled"}
    paint = {"fillcolor": PAPER if is_root else CLUSTER_FILL, "color": FAINT_INK if is_root else CLUSTER_LINE}
    title = (model.name or model.id) if is_root else _last(path)
    return {"label": _label(title, instances), **shape, **paint, "tooltip": literal("no domain" if is_root else path)}


def _last(path: str) -> str:
    return path.split(".", DEEPEST)[-1]


def _label(title: str, instances: list[Instance]) -> Html:
    rows = [f'<TR><TD ALIGN="LEFT"><B>{escaped(shortened(title))}</B></TD></TR>']
    for instance in instances[:MOST_NAMES]:
        glyph = f'<FONT COLOR="{KINDS[instance.kind].line}">{_GLYPHS[instance.kind]}</FONT>'
        of = f' <FONT COLOR="{QUIET_INK}"><I>{escaped(shortened(instance.definition.id))}</I></FONT>'
        copies = f" ×{instance.multiplicity}" if instance.is_multiplied else ""
        text = (
            f"{glyph} {escaped(shortened(instance.id) + copies)}{of if instance.definition.id != instance.id else ''}"
        )
        rows.append(_row(text))
    if len(instances) > MOST_NAMES:
        rows.append(_row(f'<FONT COLOR="{QUIET_INK}">and {len(instances) - MOST_NAMES} more</FONT>'))
    return Html(f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{"".join(rows)}</TABLE>')


def _row(text: str) -> str:
    return f'<TR><TD ALIGN="LEFT"><FONT POINT-SIZE="10.5">{text}</FONT></TD></TR>'


def _between(model: Model) -> list[Edge]:
    """Return one thin line for each pair of domains with couplings between them, with their number; none of many."""
    counts: Counter[tuple[str, str]] = Counter()
    for coupling in model.couplings:
        one = model.instances[coupling.sender.instance].domain or ROOT
        other = model.instances[coupling.receiver.instance].domain or ROOT
        if one != other:
            counts[min(one, other), max(one, other)] += 1
    if len(counts) > MOST_LINES:
        return []
    return [
        Edge(
            one,
            other,
            {
                "label": f"{count} coupling{'' if count == 1 else 's'}",
                "dir": "none",
                "style": "dotted",
                "constraint": "false",
            },
        )
        for (one, other), count in counts.items()
    ]
