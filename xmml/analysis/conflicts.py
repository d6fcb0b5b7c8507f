"""What keeps a model from finishing, in words: deadlocks, and instances that are sent too few messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xmml.analysis.counts import Counts, Shortage
from xmml.analysis.demand import Demand, Place
from xmml.analysis.network import Channel, Network, Process
from xmml.analysis.outcome import Blocked
from xmml.analysis.zero_delay import Cycle, Wait
from xmml.model import Coupling, Model


@dataclass(frozen=True, slots=True)
class Conflict:
    """One reason why somebody waits for ever.

    Attributes:
        kind: `deadlock` (a cycle of instances that wait for each other) or `rate` (fewer messages come than are taken).
        words: the reason, in one sentence without a full stop.
        help: what to do about it.
        instances: those that take part; in a deadlock each waits for the next.
        couplings: the places of the couplings in `Model.couplings`, the one to show first.
    """

    kind: Literal["deadlock", "rate"]
    words: str
    help: str
    instances: tuple[str, ...]
    couplings: tuple[int, ...]


def deadlock(network: Network, cycle: Cycle) -> Conflict:
    """Return the conflict of instances that wait for each other's first message."""
    waits = [_waits(network, wait) for wait in cycle.waits]
    first, *rest = waits
    circle = "; ".join([first, *rest])
    alone = len(cycle.waits) == 1
    words = f"deadlock: {circle}" if alone else f"deadlock: nobody can be the first: {circle}"
    return Conflict(
        kind="deadlock",
        words=words,
        help=_way_out(cycle),
        instances=tuple(dict.fromkeys(wait.instance for wait in cycle.waits)),
        couplings=tuple(wait.coupling for wait in cycle.waits),
    )


def late_deadlock(network: Network, demands: tuple[Demand, ...]) -> Conflict:
    """Return the conflict of an instance that, in the end, waits for a message of its own."""
    names = [network.processes[demand.channel.receiver].instance for demand in demands]
    parts = []
    for demand in demands:
        channel = demand.channel
        coupling = network.model.couplings[channel.coupling]
        sender, receiver = network.processes[channel.sender], network.processes[channel.receiver]
        filters = [f'"{each.definition.id}"' for each in coupling.filters]
        through = f" through {', '.join(filters)}" if filters else ""
        parts.append(
            f"{coupling.receiver} needs message {demand.message} of {coupling.sender}{through} "
            f"{_when(receiver, demand.receiver_at)}, which is sent {_when(sender, demand.sender_at)}"
        )
    filtered = any(network.model.couplings[demand.channel.coupling].filters for demand in demands)
    return Conflict(
        kind="deadlock",
        words=f'deadlock: "{names[0]}" waits, in the end, for itself: {"; ".join(parts)}',
        help=_way_on(filtered),
        instances=tuple(dict.fromkeys(names)),
        couplings=tuple(demand.channel.coupling for demand in demands),
    )


def deadlock_in_run(network: Network, cycle: Sequence[Blocked]) -> Conflict:
    """Return the conflict of copies that wait for each other after they have run for a while."""
    parts, couplings = [], []
    for place, blocked in enumerate(cycle):
        following = cycle[(place + 1) % len(cycle)].process
        missing = next(each for each in blocked.missing if each.sender == following)
        channel = network.channels[missing.channel]
        couplings.append(channel.coupling)
        iteration = blocked.iteration if blocked.operator in ("S", "B") else -1
        parts.append(
            f"{blocked.name}.{channel.receiver_port} waits for message {missing.received + 1} of "
            f"{network.processes[channel.sender].name}.{channel.sender_port} "
            f"{_when(network.processes[blocked.process], Place(blocked.run, iteration))}"
        )
    instances = tuple(dict.fromkeys(blocked.instance for blocked in cycle))
    filtered = any(network.model.couplings[number].filters for number in couplings)
    return Conflict("deadlock", f"deadlock: {'; '.join(parts)}", _way_on(filtered), instances, tuple(couplings))


def _way_on(filtered: bool) -> str:
    if filtered:
        return (
            "use causal filters, which need no later message: repeat or extrapolate from the slow side to the fast "
            "one, sum or mean from the fast side to the slow one"
        )
    return "one of them has to go on without the other: compare operators and numbers of steps"


def _when(process: Process, place: Place) -> str:
    if not process.is_submodel:
        return f"in firing {place.run + 1}"
    if place.iteration == -1:
        return f"to begin run {place.run + 1}"
    if place.iteration is None:
        return f"at the end of run {place.run + 1}"
    return f"in step {place.iteration + 1}" + (f" of run {place.run + 1}" if place.run else "")


_WHEN_RECEIVED = {"finit": "before its run (finit)", "S": "in its first step (S)", "B": "in its first step (B)"}
_WHEN_SENT = {"Oi": "in its first step (Oi)", "Of": "at the end of its run (Of)"}


def _waits(network: Network, wait: Wait) -> str:
    coupling = network.model.couplings[wait.coupling]
    when = _WHEN_RECEIVED[wait.operator] if wait.operator else "before it fires"
    sends = _WHEN_SENT[wait.until_operator] if wait.until_operator else "when it fires"
    if wait.filtered:
        sends = 'at the end of its run (filter "last")'
    return f"{coupling.receiver} waits {when} for {coupling.sender}, sent {sends}"


def _way_out(cycle: Cycle) -> str:
    if any(wait.operator == "finit" for wait in cycle.waits):
        return (
            "one of them has to begin without the other: receive at S what is now received at finit, or let a terminal "
            "or another submodel send the first state"
        )
    if any(wait.until_operator == "Of" for wait in cycle.waits):
        return "what is needed during the run has to be sent at Oi; at Of it is sent when the run is over"
    return "one of them has to send before it receives: break the cycle of mappers with a submodel"


def rate_conflicts(network: Network, counts: Counts) -> Iterator[Conflict]:
    """Yield a conflict for each coupling that brings too few messages, and each instance called unequally often."""
    for shortage in counts.unequal:
        yield _unequal(network, counts, shortage)
    for number in sorted(counts.short):
        channel = network.channels[network.by_coupling[number][0]]
        if channel.receiver_operator in ("S", "B") or channel.is_state:
            yield _short(network, counts, channel)


def _unequal(network: Network, counts: Counts, shortage: Shortage) -> Conflict:
    model = network.model
    fewest, most = model.couplings[shortage.couplings[0]], model.couplings[shortage.couplings[-1]]
    if shortage.numbers[-1] == math.inf:
        words = f'"{shortage.instance}" would never end: {most.sender} repeats its messages as often as they are taken'
        help = 'take repeat="yes" away, or receive the messages at S or B'
    else:
        parts = [
            f"{model.couplings[place].receiver} gets {number} from {model.couplings[place].sender}"
            f"{_why(network, counts, place)}"
            for place, number in zip(shortage.couplings, shortage.numbers, strict=True)
        ]
        words = f'the finit ports of "{shortage.instance}" get different numbers of messages: {", ".join(parts)}'
        help = (
            f"every run takes one message from each finit port: let {fewest.sender} and {most.sender} send equally "
            "many (operators, steps, filters)"
        )
    instances = [shortage.instance, *(model.couplings[number].sender.instance for number in shortage.couplings)]
    return Conflict("rate", words, help, tuple(dict.fromkeys(instances)), shortage.couplings)


def _short(network: Network, counts: Counts, channel: Channel) -> Conflict:
    number = channel.coupling
    coupling = network.model.couplings[number]
    delivered, needed = counts.delivered[number], counts.needed[number]
    words = (
        f'"{coupling.receiver.instance}" waits for messages that never come: {coupling.receiver} takes '
        f"{needed.value}{_how_often(network, counts, coupling.receiver.instance, channel.receiver_operator)}, "
        f"but gets {delivered.value} from {coupling.sender}{_why(network, counts, number)}"
    )
    return Conflict(
        kind="rate",
        words=words,
        help=without_total(network.model, coupling) or _balance(counts, channel, bool(coupling.filters)),
        instances=(coupling.receiver.instance, coupling.sender.instance),
        couplings=(number,),
    )


def without_total(model: Model, coupling: Coupling) -> str:
    """Return what to do about an end of a coupling that makes one step only because it has no total; "": none is."""
    for end in (coupling.sender, coupling.receiver):
        instance = model.instances[end.instance]
        if instance.ports[end.port].operator not in ("Oi", "S", "B"):
            continue
        if instance.delta_s is not None and instance.total_s is None and not instance.until:
            return f'the <timescale> of "{instance.id}" has delta but no total, which is one step: add total="..."'
    return ""


def _balance(counts: Counts, channel: Channel, is_filtered: bool) -> str:
    sent, delivered, needed = (
        amounts[channel.coupling].value for amounts in (counts.sent, counts.delivered, counts.needed)
    )
    if not (isinstance(sent, int) and isinstance(delivered, int) and isinstance(needed, int)):
        raise AssertionError("a conflict has numbers")
    if is_filtered and sent >= needed:
        return "the filters let too few messages through: take them away or change their factor"
    if is_filtered:
        return (
            f"choose filters of which {needed} messages come out when {sent} go in, or change the steps (delta, total)"
        )
    if channel.sender_operator == "Of":
        return "send at Oi instead of Of to send in each step, or receive at finit instead of S or B to receive once"
    if delivered > 0 and needed % delivered == 0:
        return (
            "give both the same number of steps (delta, total), or apply an interpolation filter, such as repeat with "
            f"factor {needed // delivered}"
        )
    return "give both the same number of steps (delta, total), or apply filters that bring the numbers together"


def _why(network: Network, counts: Counts, number: int) -> str:
    """Return in brackets how the number of messages of a coupling comes about."""
    coupling = network.model.couplings[number]
    channel = network.channels[network.by_coupling[number][0]]
    how = _how_often(network, counts, coupling.sender.instance, channel.sender_operator)
    if coupling.filters:
        filters = ", ".join(f'"{each.definition.id}"' for each in coupling.filters)
        return f" (sends {counts.sent[number].value}{how}; filtered by {filters})"
    return how


def _how_often(network: Network, counts: Counts, instance: str, operator: str | None) -> str:
    runs, steps = counts.runs[instance].value, counts.steps[instance].value
    if network.model.instances[instance].kind != "submodel":
        return ""
    in_runs = "" if runs == 1 else f" in each of its {runs} runs"
    if operator in ("finit", "Of"):
        return " (once per run)" if runs == 1 else f" (once in each of its {runs} runs)"
    return f" ({steps} step{'' if steps == 1 else 's'}{in_runs})"
