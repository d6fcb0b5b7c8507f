"""The task graph of a model: as a graph, as a drawing for Graphviz, and as a time line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmml.analysis.network import network
from xmml.analysis.outcome import outcome
from xmml.analysis.source_data import source_data
from xmml.analysis.task_graph import TaskGraph
from xmml.analysis.unrolling import NODE_LIMIT, Start, Unrolling, unroll
from xmml.graphs.dot import Cluster, Drawing, Edge, Node, literal
from xmml.graphs.palette import ALARM, FAINT_INK, FONT, INK, KINDS, PAPER, QUIET_INK
from xmml.graphs.quantity_text import value_text
from xmml.graphs.task_times import TaskTimes, task_times
from xmml.graphs.time_line import time_line
from xmml.graphs.time_line_figure import time_line_figure
from xmml.model import Kind, Model
from xmml.units import Dimension

if TYPE_CHECKING:
    import networkx
    from matplotlib.figure import Figure

_START, _END = ":start", ":end"


def unrolled(
    model: Model,
    *,
    start: Start = "spontaneous",
    collapse: bool = True,
    max_iterations: int | None = None,
    node_limit: int | None = None,
) -> Unrolling:
    """Return the task graph of a model, with as many messages from sources as their files hold."""
    return unroll(
        network(model, source_data(model).fires),
        start=start,
        collapse=collapse,
        max_iterations=max_iterations,
        node_limit=node_limit or NODE_LIMIT,
    )


def task_graph(unrolling: Unrolling) -> networkx.MultiDiGraph:
    """Return the task graph as a networkx graph.

    Nodes and edges have the attributes of `TaskGraph.to_networkx`; nodes also `begin_s`, `end_s` (as soon as possible;
    only if run times are known) and `critical` (on the longest chain). The keys of edges are numbers, all different.
    """
    import networkx

    made = unrolling.task_graph.to_networkx()
    graph = networkx.MultiDiGraph(view="task", id=unrolling.task_graph.network.model.id, truncated=unrolling.truncated)
    graph.add_nodes_from(made.nodes(data=True))
    graph.add_edges_from((one, other, key, given) for key, (one, other, given) in enumerate(made.edges(data=True)))
    times = task_times(unrolling.task_graph)
    for node in range(len(unrolling.task_graph)):
        graph.nodes[node]["critical"] = False
        if not times.is_depth:
            graph.nodes[node].update(begin_s=times.begin[node] / 1e9, end_s=times.end[node] / 1e9)
    for node in times.critical:
        graph.nodes[node]["critical"] = True
    return graph


# --- for Graphviz


def task_drawing(unrolling: Unrolling, direction: str = "LR") -> Drawing:
    """Return the drawing of a task graph: nodes named by their labels, messages solid, steps and states dashed."""
    graph = unrolling.task_graph
    labels = [graph.label(node) for node in range(len(graph))]
    return Drawing(
        attributes={"rankdir": direction, "bgcolor": "white", "tooltip": literal(graph.network.model.id)},
        node_attributes={"fontname": FONT, "fontsize": "11", "fontcolor": INK, "style": "filled"},
        edge_attributes={
            "fontname": FONT,
            "fontsize": "9",
            "fontcolor": QUIET_INK,
            "color": QUIET_INK,
            "arrowsize": "0.7",
        },
        content=Cluster(
            "",
            items=[*(_node(graph, node, labels[node]) for node in range(len(graph))), *_blocked_nodes(graph)],
            edges=[*_edges(graph, labels), *_blocked_edges(graph, labels)],
        ),
        last=_marks(graph, labels),
    )


def _node(graph: TaskGraph, node: int, label: str) -> Node:
    kind = graph.network.processes[graph.process[node]].kind
    shape = {} if kind == "submodel" else {"shape": "hexagon"}
    return Node(label, {**shape, "fillcolor": KINDS[kind].fill, "color": KINDS[kind].line})


def _message(graph: TaskGraph, channel: int) -> dict[str, str]:
    name = graph.network.model.couplings[graph.network.channels[channel].coupling].name
    return {"label": literal(name)} if name else {}


def _edges(graph: TaskGraph, labels: list[str]) -> list[Edge]:
    return [
        Edge(
            labels[one],
            labels[other],
            _message(graph, channel) if channel is not None else {"label": kind, "style": "dashed"},
        )
        for one, other, kind, channel in graph.edges()
    ]


def _blocked_nodes(graph: TaskGraph) -> list[Node]:
    style = {"shape": "octagon", "fillcolor": ALARM, "color": ALARM, "fontcolor": PAPER}
    return [Node(graph.blocked_label(task), style) for task in graph.blocked]


def _blocked_edges(graph: TaskGraph, labels: list[str]) -> list[Edge]:
    found = []
    for task in graph.blocked:
        name = graph.blocked_label(task)
        if task.after is not None:
            found.append(Edge(labels[task.after], name, {"label": "step", "style": "dashed"}))
        found += [Edge(labels[node], name, _message(graph, channel)) for node, channel in task.delivered]
    return found


def _marks(graph: TaskGraph, labels: list[str]) -> list[Node | Edge]:
    found: list[Node | Edge] = []
    style = {"fillcolor": PAPER, "color": FAINT_INK}
    if graph.ends:
        found.append(Node(_END, {"label": "end", "shape": "Msquare", **style}))
        found += [Edge(labels[node], _END, {"color": FAINT_INK}) for node in graph.ends]
    if graph.starts:
        found.append(Node(_START, {"label": "start", "shape": "Mdiamond", **style}))
        found += [Edge(_START, labels[node], {"color": FAINT_INK}) for node in graph.starts]
    return found


# --- as a time line


def task_figure(unrolling: Unrolling) -> Figure:
    """Return the task graph as a time line."""
    graph = unrolling.task_graph
    times = task_times(graph)
    blocked = () if unrolling.truncated else outcome(graph.network, unrolling.final).blocked
    line = time_line(unrolling, times, blocked)
    kinds: list[Kind] = [
        "submodel" if row.process is None else graph.network.processes[row.process].kind for row in line.rows
    ]
    model = graph.network.model
    return time_line_figure(line, kinds, model.name or model.id, _note(unrolling, times))


def _note(unrolling: Unrolling, times: TaskTimes) -> str:
    tasks = f"{len(unrolling.task_graph):,} tasks"
    if unrolling.truncated:
        return f"cut off after {tasks}"
    if unrolling.task_graph.blocked:
        return f"{tasks}, then no one can go on"
    if times.is_depth:
        return tasks
    shortest = value_text(times.makespan / 1e9, Dimension.TIME)
    unknown = {p.instance for p in unrolling.task_graph.network.processes if p.is_submodel and not p.runtime_ns}
    without = (
        f"; no run time known: {', '.join(sorted(unknown)[:3])}{', …' if len(unknown) > 3 else ''}" if unknown else ""
    )
    return f"{tasks}, at least {shortest}{without}"
