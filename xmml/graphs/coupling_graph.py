"""The coupling topology as a networkx graph: instances, couplings, and all that the model says about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xmml.analysis.domains import kind_of_coupling
from xmml.analysis.templates import Template, templates
from xmml.graphs.attributes import flat
from xmml.model import Coupling, Instance, Model

if TYPE_CHECKING:
    import networkx

#: Fields of a definition that its instances have themselves, with their own values.
_EFFECTIVE = ("init", "stateful", "interactive", "timescale", "spacescales", "otherscales", "params", "ports")


def coupling_graph(model: Model) -> networkx.MultiDiGraph:
    """Return the graph of a model: a node for every instance, an edge for every coupling. Linear in both.

    Nodes have the id of the instance, edges as key the place of the coupling in the model (pools come last). Attributes
    are plain values with dotted names: those of instance, definition (`definition.class`) and coupling, scales in SI
    units (`timescale.delta`), parameters as text (`params.D`), and what follows from them:

    * nodes: `label`, `starts` (it waits for no f_init message), `ends` (nothing waits for what it sends at its end);
    * edges: `label`, `sender.operator`, `receiver.operator`, `template` (looking through mappers),
      `single_domain`, `carries_state` (from a run to the next one); of a pool `kind` ("pool", "latest") instead.
    """
    import networkx

    graph = networkx.MultiDiGraph(
        view="coupling",
        **flat(model, without=("path", "definitions", "instances", "couplings", "pools")),
    )
    starting, ending = starts(model), ends(model)
    for instance in model.instances.values():
        graph.add_node(
            instance.id,
            **_instance_attributes(instance),
            starts=instance.id in starting,
            ends=instance.id in ending,
        )
    for number, (coupling, found) in enumerate(zip(model.couplings, templates(model), strict=True)):
        between = (coupling.sender.instance, coupling.receiver.instance)
        graph.add_edge(*between, key=number, **_coupling_attributes(model, coupling, found))
    for number, pool in enumerate(model.pools, len(model.couplings)):
        between = (pool.sender.instance, pool.receiver.instance)
        kind = "latest" if pool.is_latest else "pool"
        graph.add_edge(*between, key=number, label=pool.name or str(pool), kind=kind, **flat(pool))
    return graph


def starts(model: Model) -> frozenset[str]:
    """Return the instances that start by themselves: those of which no f_init port (of a mapper: no port) is coupled.

    The state that an instance hands on to its own next run keeps it from nothing.
    """
    waiting = set()
    for coupling in model.couplings:
        if operators(model, coupling)[1] in (None, "finit") and not model.carries_state(coupling):
            waiting.add(coupling.receiver.instance)
    return frozenset(model.instances.keys() - waiting)


def ends(model: Model) -> frozenset[str]:
    """Return the instances that end the model: no O_f port (of a mapper: no out port) of them is coupled."""
    going_on = set()
    for coupling in model.couplings:
        if operators(model, coupling)[0] in (None, "Of") and not model.carries_state(coupling):
            going_on.add(coupling.sender.instance)
    return frozenset(model.instances.keys() - going_on)


def operators(model: Model, coupling: Coupling) -> tuple[str | None, str | None]:
    """Return the operators at both ends of a coupling; `None` at a mapper or terminal."""

    def operator(end: str, port: str) -> str | None:
        instance = model.instances[end]
        return instance.ports[port].operator if instance.kind == "submodel" else None

    return (
        operator(coupling.sender.instance, coupling.sender.port),
        operator(coupling.receiver.instance, coupling.receiver.port),
    )


def _instance_attributes(instance: Instance) -> dict[str, object]:
    return {
        "label": instance.id,
        **flat(instance, without=("id", "definition")),
        **{
            name: value
            for port in instance.ports.values()
            for name, value in flat(port, f"ports.{port.id}", ("id",)).items()
        },
        **flat(instance.definition.id, "definition"),
        **flat(instance.definition, "definition", without=("id", "kind", *_EFFECTIVE)),
    }


def _coupling_attributes(model: Model, coupling: Coupling, found: frozenset[Template]) -> dict[str, object]:
    sender, receiver = operators(model, coupling)
    ends = (model.instances[coupling.sender.instance], model.instances[coupling.receiver.instance])
    given: dict[str, object] = {
        "label": coupling.name or str(coupling),
        **flat(coupling),
        "sender.operator": sender,
        "receiver.operator": receiver,
        "template": " ".join(sorted(found)) or None,
        "carries_state": model.carries_state(coupling),
        "single_domain": kind_of_coupling(*ends) == "single-domain",
    }
    return {name: value for name, value in given.items() if value is not None}
