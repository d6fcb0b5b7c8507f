"""Who leaves at the end of a run, and who sends only what is asked for: rules that every walk of a network follows."""

from __future__ import annotations

from collections.abc import Sequence

from xmml.analysis.network import Network


def on_demand(network: Network) -> frozenset[int]:
    """Return the processes that send only what is asked for.

    Those are endless sources (`repeat="yes"`), and the mappers and sinks that nothing else sends to. A source that
    alone decides how often a submodel runs is none of them: it would run it for ever, and is taken to send once.
    Linear in processes and channels.
    """
    sources = [p.index for p in network.processes if p.kind == "terminal" and p.is_source and p.fires is None]
    found = _fed_by(network, sources)
    callers = [
        network.channels[channel].sender
        for process in network.processes
        if process.is_submodel and (calls := calling(network, process.index))
        if all(network.channels[channel].sender in found for channel in calls)
        for channel in calls
    ]
    if callers:
        finite = _upstream(network, callers)
        found = _fed_by(network, [source for source in sources if source not in finite])
    return frozenset(found)


def _fed_by(network: Network, sources: Sequence[int]) -> set[int]:
    """Return the sources, and the mappers and sinks of which every message comes from them."""
    found, todo = set(sources), list(sources)
    open_inputs = [len(process.finit) for process in network.processes]
    while todo:
        for channel in network.processes[todo.pop()].outputs:
            receiver = network.processes[network.channels[channel].receiver]
            open_inputs[receiver.index] -= 1
            if not receiver.is_submodel and not open_inputs[receiver.index]:
                found.add(receiver.index)
                todo.append(receiver.index)
    return found


def _upstream(network: Network, processes: Sequence[int]) -> set[int]:
    found, todo = set(processes), list(processes)
    while todo:
        for channel in network.processes[todo.pop()].inputs:
            sender = network.channels[channel].sender
            if sender not in found:
                found.add(sender)
                todo.append(sender)
    return found


def calling(network: Network, process: int) -> tuple[int, ...]:
    """Return the channels that decide how often a process runs: into finit, but for the state that it sends itself."""
    return tuple(channel for channel in network.processes[process].finit if not network.channels[channel].is_state)


def leaving(
    network: Network, done: Sequence[bool], before_run: Sequence[bool], waiting: Sequence[int], asked: frozenset[int]
) -> list[bool]:
    """Return, by process, whether it leaves once nothing moves any more.

    A submodel leaves instead of another run when all that call it have left and no message of theirs waits; a mapper or
    terminal when any of its senders has left and no message of that one waits; who sends only what is asked for when
    nobody is left to ask. Linear in processes and channels.

    Args:
        done: by process, whether it made its last run (or firing).
        before_run: by process, whether it waits for what a run (or firing) begins with.
        waiting: by channel, messages that came and were not taken.
        asked: who sends only what is asked for, as `on_demand` returns.
    """
    processes, channels = network.processes, network.channels
    left = [is_done and index not in asked for index, is_done in enumerate(done)]
    needed = [len(calling(network, index)) for index in range(len(processes))]
    askers = [len(process.outputs) for process in processes]
    left_over = [index for index in asked if not askers[index]]
    for index in left_over:
        left[index] = True
    todo = [index for index, is_left in enumerate(left) if is_left]

    def leave(index: int) -> None:
        if not left[index]:
            left[index] = True
            todo.append(index)

    while todo:
        process = processes[todo.pop()]
        for channel in process.outputs:
            receiver = channels[channel].receiver
            if waiting[channel] or not before_run[receiver] or channels[channel].receiver_operator in ("S", "B"):
                continue
            needed[receiver] -= not channels[channel].is_state
            if not processes[receiver].is_submodel or needed[receiver] == 0:
                leave(receiver)
        for channel in process.inputs:
            sender = channels[channel].sender
            askers[sender] -= 1
            if sender in asked and not askers[sender]:
                leave(sender)
    return left
