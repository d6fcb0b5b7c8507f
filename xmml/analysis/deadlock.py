"""Deadlocks: who waits for whom when nothing moves any more, and how to say so."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xmml.analysis.components import components
from xmml.analysis.final_state import FinalState
from xmml.analysis.network import Channel, Network

if TYPE_CHECKING:
    from xmml.analysis.outcome import Blocked, Missing, Outcome

#: So many blocked instances, and so many couplings of each, are told; of more only the number.
MOST_TOLD = 20

Waits = Mapping[int, Sequence[int]]
"""By process, the processes that have to send before it goes on."""


@dataclass(frozen=True, slots=True)
class WaitCycles:
    """Processes that wait for each other.

    Attributes:
        groups: every group of processes of which each waits, directly or not, for all others.
        shortest: for each group a shortest cycle in it.
    """

    groups: tuple[tuple[int, ...], ...]
    shortest: tuple[tuple[int, ...], ...]


def waits_for(network: Network, final: FinalState) -> dict[int, list[int]]:
    """Return the wait-for graph: for each process that waits, the senders that have not left."""
    return {
        stop.process: sorted(
            {sender for channel in stop.missing if not final.stops[sender := network.channels[channel].sender].finished}
        )
        for stop in final.stops
        if stop.missing and not stop.finished
    }


def reachable(waits: Waits, begin: Iterable[int]) -> set[int]:
    """Return the waiting processes that those in `begin` wait for, directly or not."""
    found: set[int] = set()
    todo = [other for process in begin for other in waits.get(process, ())]
    while todo:
        process = todo.pop()
        if process in waits and process not in found:
            found.add(process)
            todo += waits[process]
    return found


def wait_cycles(waits: Waits, processes: Sequence[int]) -> WaitCycles:
    """Return the cycles among some waiting processes; linear in processes and waits, but for the cycles themselves."""
    place = {process: number for number, process in enumerate(processes)}
    successors = [[place[other] for other in waits.get(process, ()) if other in place] for process in processes]
    groups = [sorted(group) for group in components(successors) if len(group) > 1 or group[0] in successors[group[0]]]
    groups.sort()
    shortest = [_shortest_cycle(successors, group) for group in groups]
    return WaitCycles(
        tuple(tuple(processes[member] for member in group) for group in groups),
        tuple(tuple(processes[member] for member in cycle) for cycle in shortest),
    )


def _shortest_cycle(successors: Sequence[Sequence[int]], group: Sequence[int]) -> list[int]:
    """Return a shortest cycle through the first member of a group, breadth first."""
    begin, members = group[0], set(group)
    previous: dict[int, int] = {}
    todo = deque([begin])
    while todo:
        vertex = todo.popleft()
        for other in successors[vertex]:
            if other == begin:
                cycle = [vertex]
                while cycle[-1] != begin:
                    cycle.append(previous[cycle[-1]])
                return cycle[::-1]
            if other in members and other not in previous:
                previous[other] = vertex
                todo.append(other)
    raise AssertionError("every member of a strongly connected component is on a cycle")


def witness(network: Network, outcome: Outcome) -> str:
    """Return in words who waits for whom and why, and what is left over; empty if all is well.

    One line for each instance that waits: `a, run 0, iteration 2, waits at S for a message on port i from b.o, ...`.
    """
    lines: list[str] = []
    told: set[int] = set()
    for cycle in outcome.cycles:
        lines += _cycle_lines(network, outcome, cycle)
        told.update(cycle)
    if outcome.starved:
        lines.append(f"starved: {_counted(len(outcome.starved), 'instance')} waiting for somebody who has left")
        lines += _told(network, [outcome.blocked[number] for number in outcome.starved if number not in told])
        told.update(outcome.starved)
    leaving = [each for each in outcome.blocked if each.leaves]
    if leaving:
        lines.append("incomplete: a sender has left, and what the others sent is dropped")
        lines += _told(network, leaving)
    rest = [each for number, each in enumerate(outcome.blocked) if number not in told and not each.leaves]
    if rest:
        lines.append(f"held up: {_counted(len(rest), 'instance')} waiting for these" if told else "held up:")
        lines += _told(network, rest)
    if outcome.never_started:
        if len(outcome.never_started) == len(network.by_instance):
            lines.append("nothing starts: there is no initial submodel")
        else:
            lines.append(f"never started: {_list(outcome.never_started)}")
    if outcome.unconsumed:
        names = [
            f"{number} on {network.channels[channel].name}" for channel, number in sorted(outcome.unconsumed.items())
        ]
        lines.append(f"messages never taken: {_list(names)}")
    return "\n".join(lines)


def _cycle_lines(network: Network, outcome: Outcome, cycle: Sequence[int]) -> list[str]:
    blocked = [outcome.blocked[number] for number in cycle]
    if len(blocked) == 1:
        lines = [f"deadlock: {blocked[0].name} waits for itself"]
    else:
        lines = [f"deadlock: {len(blocked)} instances wait for each other: {_list([each.name for each in blocked])}"]
    for each, following in zip(blocked[:MOST_TOLD], [*blocked[1:], blocked[0]], strict=False):
        missing = next(one for one in each.missing if one.sender == following.process and not one.sender_left)
        lines.append(f"  {_where(each)} waits {_for_message(network, each, [missing])}")
    if len(blocked) > MOST_TOLD:
        lines.append(f"  and {len(blocked) - MOST_TOLD} more")
    return lines


def _told(network: Network, blocked: Sequence[Blocked]) -> list[str]:
    lines = [f"  {_where(each)} waits {_for_message(network, each, each.missing)}" for each in blocked[:MOST_TOLD]]
    if len(blocked) > MOST_TOLD:
        lines.append(f"  and {len(blocked) - MOST_TOLD} more")
    return lines


def _where(blocked: Blocked) -> str:
    if blocked.operator is None:
        return f"{blocked.name}, firing {blocked.run},"
    iteration = f" iteration {blocked.iteration}," if blocked.operator in ("S", "B") else ""
    return f"{blocked.name}, run {blocked.run},{iteration}"


def _for_message(network: Network, blocked: Blocked, missing: Sequence[Missing]) -> str:
    at = f"at {blocked.operator} " if blocked.operator else ""
    waits = [_one_message(network, each) for each in missing[:MOST_TOLD]]
    if len(missing) > MOST_TOLD:
        waits.append(f"{len(missing) - MOST_TOLD} more")
    return at + "for a message " + ", and ".join(waits)


def _one_message(network: Network, missing: Missing) -> str:
    channel = network.channels[missing.channel]
    sender = f"{network.processes[channel.sender].name}.{channel.sender_port}"
    return f"on port {channel.receiver_port} from {sender}, which {_why(channel, missing)}"


def _why(channel: Channel, missing: Missing) -> str:
    sent = _counted(missing.sent, "message")
    through = "" if missing.sent == missing.delivered else f" (the filters let {missing.delivered} through)"
    if missing.sender_left:
        return f"sent {sent}{through} and has left"
    when = f"at {channel.sender_operator}" if channel.sender_operator else "when it fires"
    return f"sends {when} and has sent {sent}{through}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    return ", ".join(names[:MOST_TOLD]) + more
