"""Ranks of MPI programs: members of the run of their own, if arrays are spread over them.

An instance with a parallel port (`run:decomp`) is several members: rank 0 bears the name of the instance and has all
its ports; each further rank is `name#rank`. They are one process to be started, one instance to every analysis, and
one conduit for each pair of ranks that can have elements of an array in common.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xmml.array_dimensions import array_dimensions, cut_dimensions, whole_shape
from xmml.model import Instance, Port
from xmml_planner.execution_plan import Cut, PartsSpec, PlannedInstance, PortSpec

#: Between the name of an instance and the rank.
RANK_MARK = "#"


def rank_name(name: str, rank: int) -> str:
    """Return the name of a member: that of the instance for rank 0, else `name#rank`."""
    return f"{name}{RANK_MARK}{rank}" if rank else name


def cuts(instance: Instance, port: Port) -> tuple[Cut, ...]:
    """Return how the arrays of a port are spread over the ranks; nothing if rank 0 has all of them."""
    if not port.decomposition:
        return ()
    names = [name for name, _ in array_dimensions(instance.spacescales)]
    return tuple(Cut(*cut) for cut in cut_dimensions(port.decomposition, names))


def port_spec(instance: Instance, port: Port) -> PortSpec:
    """Return what the runtime is told of a port."""
    spread = cuts(instance, port)
    implementation = instance.definition.implementation
    may_have_ranks = implementation is not None and implementation.run.mpi is not None  # also one alone
    return PortSpec(
        port.id,
        port.direction,
        port.operator,
        decomposition=spread,
        shape=whole_shape(instance.spacescales) if spread or may_have_ranks else (),
        open=port.open,
    )


def members(planned: PlannedInstance, instance: Instance) -> list[PlannedInstance]:
    """Return what is to be started, and its further ranks if arrays are spread over them."""
    implementation = instance.definition.implementation
    ranks = (implementation.run.mpi if implementation else None) or 1
    if ranks == 1 or not any(port.decomposition for port in planned.ports):
        return [planned]
    further = [
        dataclasses.replace(
            planned,
            name=rank_name(planned.name, rank),
            rank_of=planned.name,
            command=(),
            env={},
            cores=0,
            program=None,
            stage_in=(),
            stage_out=(),
        )
        for rank in range(1, ranks)
    ]
    return [planned, *further]


def pairs(sender: Sequence[Cut], receiver: Sequence[Cut]) -> Sequence[tuple[int, int]]:
    """Return the pairs of a sending and a receiving rank that can have elements of an array in common."""
    if not sender and not receiver:
        return [(0, 0)]
    from xmml_native._native import rank_pairs

    plain = [[(cut.dimension, cut.parts) for cut in side] for side in (sender, receiver)]
    return rank_pairs(plain[0], plain[1])


def parts(sender: Sequence[Cut], receiver: Sequence[Cut], pair: tuple[int, int]) -> PartsSpec | None:
    """Return what a conduit between two ranks carries; `None` if it carries whole messages."""
    if not sender and not receiver:
        return None
    return PartsSpec(tuple(sender), pair[0], tuple(receiver), pair[1])
