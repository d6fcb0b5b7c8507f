"""The views of a model and what each can be written as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from xmml.graphs.dot import Drawing, dot_text
from xmml.graphs.render import IMAGE_FORMATS, ImageFormat, layout, plot
from xmml.late_dataclass import dataclass
from xmml.model import Model

if TYPE_CHECKING:
    import networkx
    from matplotlib.figure import Figure

    from xmml.analysis.unrolling import Unrolling

ViewName = Literal["coupling", "task", "domain", "scales"]
TextFormat = Literal["dot", "graphml", "json"]
Format = ImageFormat | TextFormat
Direction = Literal["LR", "TB"]
Start = Literal["spontaneous", "external"]

TEXT_FORMATS: tuple[TextFormat, ...] = get_args(TextFormat)
FORMATS: tuple[Format, ...] = (*IMAGE_FORMATS, *TEXT_FORMATS)


@dataclass(frozen=True)
class ViewOptions:
    """What can be chosen about a view.

    Attributes:
        direction: whether graphs grow to the right or downwards; `None`: as suits the view.
        collapse: whether what an instance does without sending is one node, and large topologies are folded.
        start: who starts the instances in the task graph.
        max_iterations: iterations of every loop in the task graph; `None`: all.
        node_limit: nodes of the task graph at which unrolling stops; `None`: the default of the unrolling.
    """

    direction: Direction | None = None
    collapse: bool = True
    start: Start = "spontaneous"
    max_iterations: int | None = None
    node_limit: int | None = None


@dataclass(frozen=True)
class View:
    """One way to look at a model.

    Attributes:
        graph: as a graph with all its attributes.
        drawing: as nodes and edges for Graphviz.
        figure: as a picture with axes; `None`: Graphviz draws its picture.
    """

    graph: Callable[[Model, ViewOptions], networkx.Graph]
    drawing: Callable[[Model, ViewOptions], Drawing]
    figure: Callable[[Model, ViewOptions], Figure] | None = None


def _coupling_graph(model: Model, options: ViewOptions) -> networkx.Graph:
    from xmml.graphs.coupling_graph import coupling_graph

    return coupling_graph(model)


def _coupling_drawing(model: Model, options: ViewOptions) -> Drawing:
    from xmml.graphs.coupling_view import coupling_view

    return coupling_view(model, options.direction or "LR", options.collapse)


def _domain_graph(model: Model, options: ViewOptions) -> networkx.Graph:
    from xmml.graphs.domain_graph import domain_graph

    return domain_graph(model)


def _domain_drawing(model: Model, options: ViewOptions) -> Drawing:
    from xmml.graphs.domain_graph import domain_view

    return domain_view(model, options.direction or "TB")


def _unrolled(model: Model, options: ViewOptions) -> Unrolling:
    from xmml.graphs.task_view import unrolled

    return unrolled(
        model,
        start=options.start,
        collapse=options.collapse,
        max_iterations=options.max_iterations,
        node_limit=options.node_limit,
    )


def _task_graph(model: Model, options: ViewOptions) -> networkx.Graph:
    from xmml.graphs.task_view import task_graph

    return task_graph(_unrolled(model, options))


def _task_drawing(model: Model, options: ViewOptions) -> Drawing:
    from xmml.graphs.task_view import task_drawing

    return task_drawing(_unrolled(model, options), options.direction or "LR")


def _task_figure(model: Model, options: ViewOptions) -> Figure:
    from xmml.graphs.task_view import task_figure

    return task_figure(_unrolled(model, options))


def _scale_graph(model: Model, options: ViewOptions) -> networkx.Graph:
    from xmml.graphs.scale_map_view import scale_graph

    return scale_graph(model)


def _scale_drawing(model: Model, options: ViewOptions) -> Drawing:
    from xmml.graphs.scale_map_view import scale_drawing

    return scale_drawing(model)


def _scale_figure(model: Model, options: ViewOptions) -> Figure:
    from xmml.graphs.scale_map_view import scale_figure

    return scale_figure(model)


VIEWS: Mapping[str, View] = MappingProxyType(
    {
        "coupling": View(_coupling_graph, _coupling_drawing),
        "task": View(_task_graph, _task_drawing, _task_figure),
        "domain": View(_domain_graph, _domain_drawing),
        "scales": View(_scale_graph, _scale_drawing, _scale_figure),
    }
)


def graph(model: Model, view: str = "coupling", options: ViewOptions | None = None) -> networkx.Graph:
    """Return a view of a model as a networkx graph."""
    return VIEWS[view].graph(model, options or ViewOptions())


def picture(model: Model, view: str, form: Format, options: ViewOptions | None = None) -> bytes:
    """Return a view of a model as the content of a file.

    Raises:
        RenderError: Graphviz is missing or cannot draw the graph.
    """
    chosen, options = VIEWS[view], options or ViewOptions()
    if form == "dot":
        return dot_text(chosen.drawing(model, options)).encode()
    if form == "graphml":
        from xmml.graphs.graphml import graphml

        return graphml(chosen.graph(model, options)).encode()
    if form == "json":
        from xmml.graphs.node_link import node_link

        return node_link(chosen.graph(model, options)).encode()
    if chosen.figure is not None:
        return plot(chosen.figure(model, options), form)
    return layout(dot_text(chosen.drawing(model, options)), form)
