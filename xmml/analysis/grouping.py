"""What has to be available together, and what can wait: from a model to the jobs that a scheduler starts.

Instances that exchange messages while they run need each other at the same time; so do all that feed each other in a
circle (the strongly connected components of the coupling topology). Only a dispatch, the end of one run that begins
another one, lets the later one start when the earlier is over. A macro model and the micro models that it calls take
turns, and may share cores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from xmml.analysis.components import components
from xmml.analysis.network import Network
from xmml.analysis.templates import templates
from xmml.late_dataclass import dataclass


@dataclass(frozen=True)
class JobGroup:
    """Instances that have to be available together.

    Attributes:
        instances: their ids, in the order of the model.
        takes_turns: groups of instances of which, whenever one computes, the first or the others wait: the first calls
            the others and goes on when they release it.
        cores: how many are busy at most at a time.
        starts_ns: when the first of them begins, if everything happens as soon as it can.
    """

    instances: tuple[str, ...]
    takes_turns: tuple[tuple[str, ...], ...]
    cores: int
    starts_ns: int


def jobs(network: Network, begin_ns: Sequence[int] | None = None) -> tuple[JobGroup, ...]:
    """Return the jobs of a model, in the order in which they start. Linear in instances and couplings.

    Args:
        begin_ns: by process, when its first run begins, from a simulation.
    """
    model = network.model
    names = list(network.by_instance)
    place = {name: number for number, name in enumerate(names)}
    successors: list[set[int]] = [set() for _ in names]
    together: list[set[int]] = [set() for _ in names]
    found = templates(model)
    for number, coupling in enumerate(model.couplings):
        sender, receiver = place[coupling.sender.instance], place[coupling.receiver.instance]
        successors[sender].add(receiver)
        if found[number] != {"dispatch"}:
            together[sender].add(receiver)
            together[receiver].add(sender)
    for pool in model.pools:  # a writer waits for its readers
        writer, reader = place[pool.sender.instance], place[pool.receiver.instance]
        together[writer].add(reader)
        together[reader].add(writer)
    for group in components([tuple(sorted(each)) for each in successors]):
        for member in group:
            together[group[0]].add(member)
            together[member].add(group[0])
    calls = _calls(network, found)
    made = []
    for group in components([tuple(sorted(each)) for each in together]):
        members = sorted(group)
        ids = tuple(names[member] for member in members)
        starts = [
            begin_ns[process]
            for name in ids
            for process in network.by_instance[name]
            if begin_ns and begin_ns[process] >= 0
        ]
        turns = tuple((macro, *calls[macro]) for macro in ids if macro in calls)
        made.append(
            (
                min(starts, default=0),
                members[0],
                JobGroup(ids, turns, _cores(network, ids, calls), min(starts, default=0)),
            )
        )
    return tuple(job for _, _, job in sorted(made, key=lambda each: each[:2]))


def _calls(network: Network, found: Sequence[frozenset[str]]) -> Mapping[str, tuple[str, ...]]:
    """Return whom each macro model calls and is released by, through any mappers."""
    model = network.model
    called: dict[str, set[str]] = defaultdict(set)
    releasing: dict[str, set[str]] = defaultdict(set)
    onwards: dict[str, list[str]] = defaultdict(list)
    for coupling in model.couplings:
        onwards[coupling.sender.instance].append(coupling.receiver.instance)
    for number, coupling in enumerate(model.couplings):
        sender = coupling.sender.instance
        if model.instances[sender].kind != "submodel":
            continue
        reached = _submodels_behind(network, coupling.receiver.instance, onwards)
        if found[number] == {"call"}:
            called[sender] |= reached
        elif found[number] == {"release"}:
            for receiver in reached:
                releasing[receiver].add(sender)
    place = {name: number for number, name in enumerate(model.instances)}
    pairs = {
        macro: tuple(sorted((micros & releasing[macro]) - {macro}, key=place.__getitem__))
        for macro, micros in called.items()
    }
    return {macro: micros for macro, micros in pairs.items() if micros}


def _submodels_behind(network: Network, begin: str, onwards: Mapping[str, Sequence[str]]) -> set[str]:
    """Return an instance, or the submodels behind it if it is a mapper."""
    found, seen, todo = set(), {begin}, [begin]
    while todo:
        name = todo.pop()
        if network.model.instances[name].kind == "submodel":
            found.add(name)
            continue
        for other in onwards.get(name, ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return found


def _cores(network: Network, ids: Sequence[str], calls: Mapping[str, Sequence[str]]) -> int:
    """Return the cores of a job: those that take turns need only as many as the larger side."""
    caller: dict[str, str] = {}
    for macro in ids:
        for micro in calls.get(macro, ()):
            caller.setdefault(micro, macro)
    own = {name: sum(network.processes[process].cores for process in network.by_instance[name]) for name in ids}
    below: dict[str, list[str]] = defaultdict(list)
    roots = []
    for name in ids:
        path, above = {name}, caller.get(name)
        while above is not None and above not in path:
            path.add(above)
            above = caller.get(above)
        if above is None and name in caller:
            below[caller[name]].append(name)
        else:
            roots.append(name)
    needed = dict(own)
    for name in _leaves_first(roots, below):
        needed[name] = max(own[name], sum(needed[each] for each in below[name]))
    return sum(needed[name] for name in roots)


def _leaves_first(roots: Sequence[str], below: Mapping[str, Sequence[str]]) -> list[str]:
    order, todo = [], list(roots)
    while todo:
        name = todo.pop()
        order.append(name)
        todo.extend(below.get(name, ()))
    return order[::-1]
