"""Multiplicity: from the instances of a model to the copies that run, `c` with multiplicity 3 to `c[0]`, `c[1]`,
`c[2]`."""

from __future__ import annotations

from collections.abc import Mapping

from xmml.model import Coupling, Instance, Model
from xmml.problems import Problem
from xmml_planner.problems import problem_at


def copy_names(instance: Instance) -> list[str]:
    """Return the names of the copies; an instance without multiplicity keeps its own."""
    if instance.multiplicity == 1:
        return [instance.id]
    return [f"{instance.id}[{index}]" for index in range(copy_count(instance))]


def copy_count(instance: Instance) -> int:
    """Return how many copies start: none of a dynamic multiplicity, which `check_copies` refuses."""
    return instance.multiplicity if isinstance(instance.multiplicity, int) else 0


def check_copies(model: Model) -> list[Problem]:
    """Return what keeps the copies of a model from being started or wired."""
    problems = [
        problem_at(
            instance.position, f'"{instance.id}" has a dynamic multiplicity, which cannot be run yet', "give a number"
        )
        for instance in model.instances.values()
        if instance.multiplicity == "dynamic"
    ]
    for coupling in model.couplings:
        sender, receiver = model.instances[coupling.sender.instance], model.instances[coupling.receiver.instance]
        if (sender.is_multiplied and receiver.kind != "mapper") or (receiver.is_multiplied and sender.kind != "mapper"):
            problems.append(
                problem_at(
                    coupling.position,
                    f"{coupling} couples a multiplied instance to one that cannot address its copies",
                    "put a mapper between the two: it scatters to the copies and gathers from them",
                )
            )
    return problems


def copies_by_port(model: Model) -> tuple[Mapping[tuple[str, str], int], list[Problem]]:
    """Return, by instance and port, how many copies are at the other end (0 for a single instance).

    A port whose couplings lead to different numbers of copies cannot say which one it addresses: a problem.
    """
    copies: dict[tuple[str, str], int] = {}
    problems = []
    for coupling in model.couplings:
        for end, other in ((coupling.sender, coupling.receiver), (coupling.receiver, coupling.sender)):
            partner = model.instances[other.instance]
            count = copy_count(partner) if partner.is_multiplied else 0
            if copies.setdefault((end.instance, end.port), count) != count:
                problems.append(_differing(coupling, str(end)))
    return copies, problems


def _differing(coupling: Coupling, end: str) -> Problem:
    return problem_at(
        coupling.position,
        f"{end} is coupled to instances with different numbers of copies, so that an index would be ambiguous",
        "give the mapper one port for each of them",
    )
