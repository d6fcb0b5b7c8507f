"""Which timelines of a yMMSL 0.2 model have the same points.

MUSCLE3 gives every component a timeline of its own, below that of the component that calls it, and refuses conduits
between different ones unless `matching_timelines` says that they are equal. Between submodels that exchange messages
in every step they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml.late_dataclass import dataclass

#: Names of components from the outermost caller inwards.
Timeline = tuple[str, ...]

#: Filters that leave a timeline, and that enter one.
_OUTWARDS, _INWARDS = ("last",), ("repeat", "pad")


@dataclass(frozen=True)
class Link:
    """A conduit: `COMPONENT.PORT` at both ends, and its filters."""

    sender: tuple[str, str]
    receiver: tuple[str, str]
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matches:
    """Sets of equal timelines, the outermost first, and the conduits that no set can mend."""

    sets: tuple[tuple[Timeline, ...], ...]
    unmatched: tuple[Link, ...]


def matching_timelines(operators: Mapping[tuple[str, str], str], links: Sequence[Link]) -> Matches:
    """Return which timelines must be declared equal for the conduits to be consistent.

    Parameters:
        operators: `f_init`, `o_i`, `s` or `o_f` of every (component, port).
        links: the conduits; into each port one.

    Linear in links times the depth of calls.
    """
    entering: dict[str, list[Link]] = {}
    for link in links:
        if operators[link.receiver] == "f_init":
            entering.setdefault(link.receiver[0], []).append(link)
    outer = _outer_timelines({component for component, _ in operators}, entering, operators)
    groups: dict[Timeline, set[Timeline]] = {}
    unmatched = []
    for link in links:
        sent = _reduced(_of_message(link.sender, operators, outer), link)
        received = _of_message(link.receiver, operators, outer)
        repeats = sum(name in _INWARDS for name in link.filters)
        taken = received[: len(received) - repeats] if repeats <= len(received) else None
        if sent is None or taken is None or len(sent) != len(taken):
            unmatched.append(link)
        elif sent != taken:
            joined = groups.get(sent, {sent}) | groups.get(taken, {taken})
            for timeline in joined:
                groups[timeline] = joined
    sets = {id(group): tuple(sorted(group, key=lambda each: (len(each), each))) for group in groups.values()}
    return Matches(tuple(sets.values()), tuple(unmatched))


def _outer_timelines(
    components: set[str], entering: Mapping[str, Sequence[Link]], operators: Mapping[tuple[str, str], str]
) -> dict[str, Timeline]:
    """Return for each component the timeline on which it is called; the outermost is empty.

    What calls itself in a circle, which MUSCLE3 refuses, counts as outermost.
    """
    found: dict[str, Timeline] = {}
    for first in sorted(components):
        chain = [first]
        while chain:
            component = chain[-1]
            callers = [link for link in entering.get(component, ()) if not set(link.filters) & set(_INWARDS)]
            waiting = [link.sender[0] for link in callers if link.sender[0] not in found]
            waiting = [sender for sender in waiting if sender not in chain]
            if component not in found and waiting:
                chain.append(waiting[0])
                continue
            if component not in found:
                known = [link for link in callers if link.sender[0] in found]
                of_first = _reduced(_of_message(known[0].sender, operators, found), known[0]) if known else ()
                found[component] = of_first or ()
            chain.pop()
    return found


def _of_message(
    end: tuple[str, str], operators: Mapping[tuple[str, str], str], outer: Mapping[str, Timeline]
) -> Timeline:
    called_on = outer[end[0]]
    return called_on if operators[end] in ("f_init", "o_f") else (*called_on, end[0])


def _reduced(timeline: Timeline, link: Link) -> Timeline | None:
    """Return what `last` filters leave of a timeline; `None` if there are too many of them."""
    leaves = sum(name in _OUTWARDS for name in link.filters)
    return timeline[: len(timeline) - leaves] if leaves <= len(timeline) else None
