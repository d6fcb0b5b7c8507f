"""Coupling templates: what two submodels have to do with each other, by the operators at the ends of the way.

    O_i -> S or B   interact    both go on, and exchange states as they do
    O_i -> f_init   call        each step of one starts a run of the other
    O_f -> S or B   release     the end of a run lets the other one go on
    O_f -> f_init   dispatch    one runs after the other

Where mappers stand between, the operators at the two ends of the whole way count (Borgdorff et al., "Foundations of
distributed multiscale computing", 2013).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from xmml.model import Coupling, Endpoint, Model, Operator

Template = Literal["interact", "call", "release", "dispatch"]


def template_of(sends: Operator, receives: Operator) -> Template:
    """Return the template of a way from an out operator to an in operator."""
    if sends == "Oi":
        return "call" if receives == "finit" else "interact"
    return "dispatch" if receives == "finit" else "release"


def template(model: Model, coupling: Coupling) -> Template | None:
    """Return the template of one coupling, looking through mappers.

    `None` if the way begins or ends at no submodel, or if the ways that the coupling is part of have several. For all
    couplings of a model, ask `templates`: it takes no longer.
    """
    sends, receives = model.port(coupling.sender).operator, model.port(coupling.receiver).operator
    if sends is not None and receives is not None:
        return template_of(sends, receives)
    found = templates(model)[model.couplings.index(coupling)]
    return next(iter(found)) if len(found) == 1 else None


def templates(model: Model) -> tuple[frozenset[Template], ...]:
    """Return the templates of the ways that each coupling is part of. Linear in instances and couplings."""
    sends = _operators_through_mappers(
        model, ((each.sender, each.receiver) for each in model.couplings), model.couplings
    )
    receives = _operators_through_mappers(
        model, ((each.receiver, each.sender) for each in model.couplings), model.couplings
    )
    return tuple(
        frozenset(template_of(one, other) for one in first for other in second)
        for first, second in zip(sends, receives, strict=True)
    )


def _operators_through_mappers(
    model: Model, ways: Iterable[tuple[Endpoint, Endpoint]], couplings: Iterable[Coupling]
) -> list[frozenset[Operator]]:
    """Return for each coupling the operators that its way comes from, given each one's near and far end."""
    pairs = list(ways)
    reached: dict[str, set[Operator]] = defaultdict(set)
    onwards: dict[str, set[str]] = defaultdict(set)
    for near, far in pairs:
        if model.instances[far.instance].kind == "mapper":
            operator = model.port(near).operator
            if operator is not None:
                reached[far.instance].add(operator)
            elif model.instances[near.instance].kind == "mapper":
                onwards[near.instance].add(far.instance)
    queue = deque(reached)
    while queue:
        mapper = queue.popleft()
        for other in onwards[mapper]:
            if not reached[mapper] <= reached[other]:
                reached[other] |= reached[mapper]
                queue.append(other)
    found = []
    for near, _ in pairs:
        operator = model.port(near).operator
        if operator is not None:
            found.append(frozenset({operator}))
        elif model.instances[near.instance].kind == "mapper":
            found.append(frozenset(reached[near.instance]))
        else:
            found.append(frozenset())
    return found


@dataclass(frozen=True, slots=True)
class Way:
    """How messages get from one submodel to another: over one coupling, or several with mappers between.

    Attributes:
        couplings: their places in `Model.couplings`, in the order of travel.
    """

    sender: Endpoint
    receiver: Endpoint
    template: Template
    couplings: tuple[int, ...]


def ways(model: Model, limit: int = 100_000) -> Iterator[Way]:
    """Yield the ways between submodels, a shortest one for each pair of a first and a last coupling.

    A mapper joins each of its in ports with each of its out ports, so there may be many more ways than couplings:
    at most `limit` couplings are walked over behind mappers.
    """
    leaving: Mapping[str, list[int]] = defaultdict(list)
    for number, coupling in enumerate(model.couplings):
        leaving[coupling.sender.instance].append(number)
    walked = 0
    for number, coupling in enumerate(model.couplings):
        sends = model.port(coupling.sender).operator
        if sends is None:
            continue
        receives = model.port(coupling.receiver).operator
        if receives is not None:
            yield Way(coupling.sender, coupling.receiver, template_of(sends, receives), (number,))
            continue
        before: dict[int, int] = {}
        queue, seen = deque([number]), {coupling.receiver.instance}
        while queue:
            last = queue.popleft()
            if model.instances[model.couplings[last].receiver.instance].kind != "mapper":
                continue
            for following in leaving[model.couplings[last].receiver.instance]:
                walked += 1
                if walked > limit:
                    return
                end = model.couplings[following].receiver
                before[following] = last
                receives = model.port(end).operator
                if receives is not None:
                    path = [following]
                    while path[-1] != number:
                        path.append(before[path[-1]])
                    yield Way(coupling.sender, end, template_of(sends, receives), tuple(reversed(path)))
                elif end.instance not in seen:
                    seen.add(end.instance)
                    queue.append(following)
