"""Pools: E31 for attributes that cannot be read, E33 for couplings that cannot be pools. (E32, selectors, needs the
parameters of the readers: see `xmml.resolve`.)"""

from __future__ import annotations

from collections.abc import Iterator

from xmml.builtins import TERMINALS_OF_OBJECTS
from xmml.checks.index import End, Index
from xmml.definitions import read_datatypes
from xmml.problems import Problem
from xmml.run_options import COUPLING_KINDS, settings_of
from xmml.selectors import SelectorError, attributes_of, schema
from xmml.tree import RUN, Element

#: Settings of couplings that have a meaning for pools only, for messages only, or for pools that show every object.
_OF_POOLS = ("select", "share", "loss", "limit")
_OF_MESSAGES = ("capacity", "compress", "class")
_OF_EVERY_OBJECT = ("share", "loss", "limit")


def is_pool(coupling: Element) -> bool:
    """Whether a coupling carries the objects that its receiver chooses (`run:kind="pool"`), or the newest of them only
    (`run:kind="latest"`)."""
    return not coupling.is_plain and settings_of(coupling).get("kind") in ("pool", "latest")


def is_latest(coupling: Element) -> bool:
    """Whether the receiver of a coupling sees the newest object only (`run:kind="latest"`)."""
    return not coupling.is_plain and settings_of(coupling).get("kind") == "latest"


def lacks_kind(coupling: Element, *ends: End | None) -> bool:
    """Whether a coupling carries messages only because its `run:kind` is missing or cannot be read, as another problem
    tells."""
    if any(end is not None and _is_of_objects(end) for end in ends):
        return True
    settings = [each for each in coupling.attributes if each.namespace == RUN]
    if any(each.name in _OF_POOLS or (each.name != "kind" and each.value in COUPLING_KINDS) for each in settings):
        return True
    return coupling.get("kind", RUN) not in (None, *COUPLING_KINDS)


def attributes_can_be_read(index: Index) -> Iterator[Problem]:
    """What `run:attributes` says are declarations of attributes, none of which the extended datatype has already."""
    definitions = index.root.first("definitions")
    datatypes = read_datatypes(definitions) if definitions is not None else {}
    for element in index.datatype_elements:
        text = element.get("attributes", RUN)
        if text is None:
            continue
        try:
            schema(text)
        except SelectorError as error:
            message = f'the attributes of the datatype "{element.get("id")}" cannot be read: {error}'
            help = 'write NAME:TYPE with white space between, as in "step:int[0..]! levtype:enum(sfc,pl) date:time"'
            yield element.problem("E31", message, help, "attributes", RUN, within=(error.first, error.end))
            continue
        try:
            schema(attributes_of(datatypes, element.get("id")))
        except SelectorError as error:
            message = f'"{element.get("id")}" has the attributes of what it extends, too: {error}'
            yield element.problem("E31", message, "give it another name", "attributes", RUN)


def possible_pools(index: Index) -> Iterator[Problem]:
    """A pool leads from submodels to submodels, or terminals that are for that, and shares its in port with pools only.
    Arrays that are spread over ranks go to readers that get every object."""
    for coupling, sender, receiver in index.coupled:
        pool, latest = is_pool(coupling), is_latest(coupling)
        for name in (*(_OF_MESSAGES if pool else _OF_POOLS), *(_OF_EVERY_OBJECT if latest else ())):
            if coupling.get(name, RUN) is not None:
                yield coupling.problem("E33", *_misplaced(name, latest), name, RUN)
        if not pool:
            for end, attribute in ((sender, "from"), (receiver, "to")):
                if end is not None and _is_of_objects(end):
                    message = f"{coupling.get(attribute)} is of an archive, and this coupling carries messages"
                    yield coupling.problem("E33", message, 'add run:kind="pool"', attribute)
            continue
        for end, attribute in ((sender, "from"), (receiver, "to")):
            if end is not None and (refusal := _refusal(end, latest)) is not None:
                kind = "latest coupling" if latest else "pool"
                yield coupling.problem("E33", f"this {kind} {refusal[0]}", refusal[1], attribute)
        if (spread := _spread(sender, receiver)) is not None:
            yield from _cannot_be_spread(coupling, spread, latest)
        for apply in coupling.named("apply")[:1]:
            help = "remove it: readers choose objects by run:select, and change them themselves"
            kind = "latest" if latest else "a pool"
            yield apply.problem("E33", f"filters change messages, and this coupling is {kind}", help, "filter")
    yield from _shared_in_ports(index)
    yield from _sent_without_attributes(index)


def _misplaced(name: str, latest: bool) -> tuple[str, str]:
    if latest:
        message = f"run:{name} has no meaning for a coupling that is latest: one message waits, the newest"
        return message, "remove it"
    if name in _OF_POOLS:
        message = f"run:{name} has a meaning for pools only, and this coupling carries messages"
        return message, 'add run:kind="pool", or remove it'
    help = "run:limit says how many bytes may wait for the reader" if name == "capacity" else "remove it"
    return f"run:{name} has a meaning for messages only, and this coupling is a pool", help


def _is_of_objects(end: End) -> bool:
    """Whether a port is of a terminal that keeps objects, or puts them."""
    definition = end[0].definition
    return end[0].kind == "terminal" and definition is not None and definition.get("class") in TERMINALS_OF_OBJECTS


def _refusal(end: End, latest: bool) -> tuple[str, str] | None:
    """Return why a port cannot be the end of a pool, and what to do."""
    entry, port = end
    name = f"{entry.id}.{port.get('id')}"
    begins = "begins" if port.name == "out" else "ends"
    if latest and _is_of_objects(end):
        return f"{begins} at {name}, which is of an archive", 'an archive is for every object: run:kind="pool"'
    if entry.kind in ("mapper", "terminal") and latest:
        return f"{begins} at {name}, which is of a {entry.kind}", "let it lead from a submodel to a submodel"
    if entry.kind in ("mapper", "terminal") and not _is_of_objects(end):
        help = 'objects are put and taken by submodels, and by terminals of class="archive"'
        return f"{begins} at {name}, which is of a {entry.kind}", help
    if port.get("type") == "state":
        return f"{begins} at {name}, which is for the state of the submodel", 'remove type="state" from the port'
    return None


def _spread(*ends: End | None) -> str | None:
    """Return the name of a port whose arrays are spread over ranks, if one of these is."""
    for end in ends:
        if end is not None and settings_of(end[1]).get("decomp"):
            return f"{end[0].id}.{end[1].get('id')}"
    return None


def _cannot_be_spread(coupling: Element, name: str, latest: bool) -> Iterator[Problem]:
    """The parts of an object meet again since every reader gets all that it chooses, in one order."""
    why = f"and the arrays of {name} are spread over ranks (run:decomp)"
    help = "remove run:decomp from the port: rank 0 then has the whole array"
    if latest:
        yield coupling.problem(
            "E33", f"the reader of this coupling sees the newest object only, {why}", help, "kind", RUN
        )
        return
    if settings_of(coupling).get("share") == "queue":
        yield coupling.problem("E33", f"the copies of the reader share the objects, {why}", help, "share", RUN)
    if settings_of(coupling).get("loss") == "allowed":
        yield coupling.problem("E33", f"the reader may lose objects, {why}", help, "loss", RUN)


def _shared_in_ports(index: Index) -> Iterator[Problem]:
    """An in port gets messages or objects, and objects of one out port by one pool."""
    first: dict[tuple[str | None, bool], Element] = {}
    pools: dict[tuple[str | None, str | None], Element] = {}
    for coupling in index.couplings:
        to, pool = coupling.get("to"), is_pool(coupling)
        other = first.get((to, not pool))
        if other is not None and (to, pool) not in first:
            message = f"{to} gets messages and objects (line {other.position.line})"
            yield coupling.problem("E33", message, "give the objects an in port of their own", "to")
        first.setdefault((to, pool), coupling)
        if not pool:
            continue
        other = pools.setdefault((coupling.get("from"), to), coupling)
        if other is not coupling:
            message = f"{coupling.get('from')} and {to} are coupled by a pool already (line {other.position.line})"
            yield coupling.problem("E33", message, 'write one coupling: run:select="(...) or (...)"', "from")


def _sent_without_attributes(index: Index) -> Iterator[Problem]:
    """What leaves an out port as a message and as an object is sent, and a send gives no attributes."""
    leading: dict[str | None, set[bool]] = {}
    for coupling in index.couplings:
        leading.setdefault(coupling.get("from"), set()).add(is_pool(coupling))
    definitions = index.root.first("definitions")
    datatypes = read_datatypes(definitions) if definitions is not None else {}
    for coupling, sender, _ in index.coupled:
        if sender is None or not is_pool(coupling) or len(leading[coupling.get("from")]) == 1:
            continue
        try:
            schema(attributes_of(datatypes, sender[1].get("datatype"))).complete({})
        except SelectorError:
            continue  # E31 tells
        except ValueError as error:
            message = f"{coupling.get('from')} leads to message couplings, too, so that objects are sent there: {error}"
            help = "make pools of them, too, give objects and messages an out port each, or make the attribute optional"
            yield coupling.problem("E33", message, help, "from")
