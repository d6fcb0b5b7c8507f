"""What the instances of a model ask of the sites: cores, memory, GPUs, software, and who has to run with whom.

Copies of an instance that nobody tells apart are one *unit*: a solver that had to choose a site for each of a thousand
equal copies would look at the same plan again and again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml.analysis.grouping import jobs
from xmml.analysis.network import Network
from xmml.analysis.static import StaticAnalysis
from xmml.late_dataclass import dataclass
from xmml.model import Instance
from xmml.run_options import method_name
from xmml_planner.copies import copy_names


@dataclass(frozen=True)
class Unit:
    """Copies of an instance that have the same needs, as much to do, and the same sites to choose from.

    Attributes:
        name: of the instance, or of its only copy here.
        element: id of the instance.
        processes: its copies, as places in the network.
        cores: of one copy; mappers and terminals only hand messages on, and count none.
        cores_of_rank, memory_of_rank, gpus_of_rank: what has to be found on one node, for each of its `ranks`.
        memory_bytes, gpus: of one copy.
        needs: software.
        wish: the site that somebody asks for.
    """

    name: str
    element: str
    processes: tuple[int, ...]
    cores: int
    cores_of_rank: int
    memory_of_rank: int
    gpus_of_rank: int
    memory_bytes: int
    gpus: int
    ranks: int
    needs: tuple[str, ...]
    wish: str | None

    @property
    def count(self) -> int:
        """How many copies it has."""
        return len(self.processes)


@dataclass(frozen=True)
class Turns:
    """Units that compute by turns and so can share cores: `caller` waits while those it calls compute."""

    caller: int
    called: tuple[int, ...]


@dataclass(frozen=True)
class Group:
    """Units that have to be available together.

    Attributes:
        units: their places.
        turns: who shares cores with whom; no unit is called by two.
    """

    units: tuple[int, ...]
    turns: tuple[Turns, ...]


@dataclass(frozen=True)
class Demands:
    """Everything that a placement has to satisfy, apart from the sites.

    Attributes:
        units: what is placed.
        unit_of: by process of the network, its unit.
        groups: in the order in which they begin.
        group_of: by unit, its group.
        before: pairs of groups of which the first sends to the second, and is surely over when that begins.
        together: pairs of units between which messages can only go within a site.
        only: by pair of units, the methods between sites that are allowed, if not all are.
    """

    units: tuple[Unit, ...]
    unit_of: tuple[int, ...]
    groups: tuple[Group, ...]
    group_of: tuple[int, ...]
    before: tuple[tuple[int, int], ...]
    together: frozenset[tuple[int, int]]
    only: Mapping[tuple[int, int], tuple[str, ...]]


def demands(
    network: Network,
    static: StaticAnalysis,
    wishes: Mapping[str, str],
    begin_ns: Sequence[int],
    busy_ns: Sequence[int],
) -> Demands:
    """Return what a model asks of the sites.

    Args:
        wishes: sites by name of an instance or of a copy; that of a copy counts more.
        begin_ns: by process, when its first run begins if nothing has to wait for sites, which orders the groups.
        busy_ns: by process, how long it computes in all. Copies of which some are called more often are told apart.
    """
    units: list[Unit] = []
    of_element: dict[str, list[int]] = {}
    unit_of = [0] * len(network.processes)
    for name, processes in network.by_instance.items():
        instance = network.model.instances[name]
        alike: dict[tuple[str | None, int], list[int]] = {}
        for copy, process in zip(copy_names(instance), processes, strict=True):
            alike.setdefault((wishes.get(copy, wishes.get(name)), busy_ns[process]), []).append(process)
        for (wish, _), own in alike.items():
            for process in own:
                unit_of[process] = len(units)
            of_element.setdefault(name, []).append(len(units))
            label = name if len(alike) == 1 or len(own) > 1 else network.processes[own[0]].name
            units.append(_unit(label, instance, tuple(own), network.processes[own[0]].cores, wish))
    groups = _groups(network, of_element, begin_ns)
    group_of = [0] * len(units)
    for number, group in enumerate(groups):
        for unit in group.units:
            group_of[unit] = number
    together, only = _ways_allowed(network, unit_of)
    return Demands(
        tuple(units),
        tuple(unit_of),
        groups,
        tuple(group_of),
        _before(network, static, unit_of, group_of, len(groups)),
        together,
        only,
    )


def _unit(name: str, instance: Instance, processes: tuple[int, ...], cores: int, wish: str | None) -> Unit:
    implementation = instance.definition.implementation
    run = implementation.run if implementation else None
    ranks = (run.mpi if run else None) or 1
    memory = int(implementation.memory_bytes or 0) if implementation else 0
    stated = implementation is not None and (
        implementation.cores or implementation.run.mpi or implementation.run.threads
    )
    computes = instance.kind == "submodel" or bool(stated)
    return Unit(
        name=name,
        element=instance.id,
        processes=processes,
        cores=cores if computes else 0,
        cores_of_rank=max(1, cores // ranks) if computes else 0,
        memory_of_rank=-(-memory // ranks),
        gpus_of_rank=(run.gpus if run else None) or 0,
        memory_bytes=memory,
        gpus=((run.gpus if run else None) or 0) * ranks,
        ranks=ranks,
        needs=run.needs if run else (),
        wish=wish,
    )


def _groups(network: Network, of_element: Mapping[str, Sequence[int]], begin_ns: Sequence[int]) -> tuple[Group, ...]:
    groups = []
    for job in jobs(network, begin_ns):
        units = tuple(unit for name in job.instances for unit in of_element[name])
        called: set[str] = set()
        turns: list[tuple[str, list[str]]] = []
        for caller, *micros in job.takes_turns:
            own = [name for name in micros if name not in called and not _is_below(caller, name, turns)]
            called.update(own)
            if len(of_element[caller]) == 1 and own:
                turns.append((caller, own))
        groups.append(
            Group(
                units,
                tuple(
                    Turns(of_element[caller][0], tuple(unit for name in own for unit in of_element[name]))
                    for caller, own in turns
                ),
            )
        )
    return tuple(groups)


def _is_below(name: str, other: str, turns: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Whether `name` is called, in the end, by `other`."""
    above = {micro: caller for caller, micros in turns for micro in micros}
    while (caller := above.get(name)) is not None:
        if caller == other:
            return True
        name = caller
    return False


def _ways_allowed(
    network: Network, unit_of: Sequence[int]
) -> tuple[frozenset[tuple[int, int]], Mapping[tuple[int, int], tuple[str, ...]]]:
    """Return the pairs of units that must be at one site, and between which only some methods may be used."""
    together = set()
    only: dict[tuple[int, int], tuple[str, ...]] = {}
    for channel in network.channels:
        methods = network.model.couplings[channel.coupling].methods
        if not methods:
            continue
        far = tuple(method for method in map(method_name, methods) if method in ("tcp", "relay"))
        pair = unit_of[channel.sender], unit_of[channel.receiver]
        if not far:
            together.add(pair)
        elif len(far) == 1:
            only[pair] = far if only.get(pair, far) == far else ()
    return frozenset(together | {pair for pair, far in only.items() if not far}), {
        pair: far for pair, far in only.items() if far
    }


def _before(
    network: Network, static: StaticAnalysis, unit_of: Sequence[int], group_of: Sequence[int], count: int
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of groups of which the first is over when any of the second one begins.

    An instance that runs once is over before whatever its last messages call, and so before all that those call.
    """
    group = {name: group_of[unit_of[own[0]]] for name, own in network.by_instance.items()}
    calls: dict[str, set[str]] = {name: set() for name in network.by_instance}
    ends: dict[str, set[str]] = {name: set() for name in network.by_instance}
    for coupling in network.model.couplings:
        if network.model.carries_state(coupling):
            continue
        sender, receiver = coupling.sender.instance, coupling.receiver.instance
        port, called = network.model.port(coupling.sender), network.model.port(coupling.receiver)
        to_start = called.operator == "finit" or network.model.instances[receiver].kind != "submodel"
        if not to_start:
            continue
        calls[sender].add(receiver)
        at_end = port.operator == "Of" or network.model.instances[sender].kind != "submodel"
        if at_end and static.runs[sender].value == len(network.by_instance[sender]):
            ends[sender].add(receiver)
    members: dict[int, set[str]] = {}
    for name, number in group.items():
        members.setdefault(number, set()).add(name)
    neighbours: dict[int, set[int]] = {}
    for name, receivers in ends.items():
        neighbours.setdefault(group[name], set()).update(group[receiver] for receiver in receivers)
    found = []
    for number in range(count):
        others = neighbours.get(number, set()) - {number}
        if not others or not all(ends[name] for name in members[number]):
            continue
        after = set.intersection(*(_reached(ends[name], calls) for name in members[number]))
        found += [(number, other) for other in sorted(others) if members[other] <= after]
    return tuple(found)


def _reached(begin: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    reached, todo = set(begin), list(begin)
    while todo:
        for other in edges[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached
