"""Instances without which a run is to go on if they die: E34 where others depend on each of their copies."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index, InstanceEntry
from xmml.checks.pools import is_latest, is_pool
from xmml.problems import Problem
from xmml.run_options import settings_of
from xmml.tree import RUN, Element


def without_dependants(index: Index) -> Iterator[Problem]:
    """What a copy with `run:on-death="continue"` gets, others can get in its place, or do without; nobody counts on
    what it sends."""
    for entry in index.instances.values():
        element = _continues(entry)
        if element is None:
            continue
        refusals = list(_refusals(index, entry))
        if refusals:
            message, help = refusals[0]
            message = f'the run cannot go on without copies of "{entry.id}": {message}'
            yield element.problem("E34", message, help, "on-death", RUN)


def _continues(entry: InstanceEntry) -> Element | None:
    """Return the element that says that the run goes on without an instance: the instance, else its definition."""
    for element in (entry.element, entry.definition):
        if element is not None and "on-death" in (settings := settings_of(element)):
            return element if settings["on-death"] == "continue" else None
    return None


def _refusals(index: Index, entry: InstanceEntry) -> Iterator[tuple[str, str]]:
    """Yield what others would miss, and what to do."""
    gets_objects = False
    for coupling, sender, receiver in index.coupled:
        settings = settings_of(coupling)
        is_queue = settings.get("share") == "queue"
        line = coupling.position.line
        for end, other in ((sender, receiver), (receiver, sender)):
            if end is not None and end[0] is entry and other is not None and settings_of(other[1]).get("decomp"):
                spread = f"{other[0].id}.{other[1].get('id')}"
                help = "remove run:decomp from the port, or run:on-death"
                yield (
                    f"the arrays of {spread} are spread over ranks (line {line}), each of which gets or gives a part",
                    help,
                )
        if receiver is not None and receiver[0] is entry:
            gets_objects = True
            name = coupling.get("to")
            if is_latest(coupling):
                help = f'make it a pool that may lose objects in line {line}: run:kind="pool" run:loss="allowed"'
                yield f"each copy gets the last message at {name}, which is latest (line {line})", help
            elif not is_pool(coupling):
                help = "let pools lead to it that are queues or may lose objects, or remove run:on-death"
                yield f"{name} gets messages (line {line}), which no other copy would get", help
            elif not is_queue and settings.get("loss") != "allowed":
                help = f'add run:share="queue" (or run:loss="allowed") in line {line}'
                yield f"each copy gets every object at {name} (line {line})", help
        if sender is not None and sender[0] is entry:
            name, to = coupling.get("from"), coupling.get("to")
            if is_latest(coupling):
                help = f'make a pool of the coupling in line {line}: run:kind="pool"'
                yield f"the newest message of {name} waits there for {to} (line {line}) and would be lost with it", help
            elif not is_pool(coupling):
                help = f'make a pool of the coupling in line {line}: run:kind="pool"'
                yield f"{to} counts on every message of {name} (line {line})", help
            elif is_queue:
                help = f"let {to} get each object, without run:share, or remove run:on-death"
                yield f"what waits at {name} for a worker of the queue (line {line}) would be lost with it", help
    if entry.definition is not None:
        for port in index.ports(entry.definition).values():
            if settings_of(port).get("open"):
                yield f"{port.get('id')} is open to handles", "remove run:open from the port, or run:on-death"
            if settings_of(port).get("decomp"):
                why = "each of which has parts that no other has"
                help = "remove run:decomp from the port, or run:on-death"
                yield f"the arrays of {port.get('id')} are spread over its ranks, {why}", help
    if not gets_objects:
        yield "no pool leads to it, and so nobody gets what it had to do", "remove run:on-death"
