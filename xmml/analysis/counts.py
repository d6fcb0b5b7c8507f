"""How often every instance runs and how many messages every coupling carries, without walking a single step.

An instance runs as often as it is called: once if nothing is coupled to its finit ports, else once for each message
that arrives there. So the runs of all instances follow from those of the instances that call them, in the order of the
calls, in integers of any size; a message is counted by multiplying, not by sending. The counts are those of a run in
which nobody waits for ever; where too few messages would come, `shortages` says so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import cached_property

from xmml.analysis.filter_counts import NO_FILTERS, FilterCounts
from xmml.analysis.filter_numbers import countable_outputs, inputs_for, is_one_for_one
from xmml.analysis.network import Channel, Network, Process
from xmml.late_dataclass import dataclass

#: Larger numbers count as unknown: nobody waits for so many messages, and few programs can read them.
_LARGEST = 10**300


@dataclass(frozen=True, slots=True)
class Count:
    """A number of runs, steps or messages.

    Attributes:
        value: the number, or the bound; `None` if nothing is known.
        at_most: the number may be smaller, since a program decides.
    """

    value: int | None
    at_most: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the number is known."""
        return self.value is not None and not self.at_most

    def __str__(self) -> str:
        if self.value is None:
            return "unknown"
        return f"at most {self.value}" if self.at_most else str(self.value)


class Certainty(IntEnum):
    """How far a number can be relied on; of several the largest holds."""

    EXACT = 0
    DECLARED = 1  # a filter of the user's own changes contents, not numbers
    GUESSED = 2  # a filter of the user's own changes numbers as its factor says
    UNCHECKED = 3  # by a program that keeps no order
    OPEN = 4  # a program decides while it runs
    SPOILT = 5  # follows from a conflict that is told elsewhere


@dataclass(frozen=True, slots=True)
class Amount:
    """A number on the way to a `Count`: `math.inf` for as many as are asked for, `None` for unknown."""

    value: int | float | None
    certainty: Certainty = Certainty.EXACT

    @property
    def is_sure(self) -> bool:
        """Whether it is a finite number, which a filter of the user's own may make smaller but not larger."""
        return isinstance(self.value, int) and self.certainty <= Certainty.DECLARED

    @property
    def is_endless(self) -> bool:
        """Whether there is a message whenever one is asked for."""
        return self.value == math.inf

    def times(self, factor: Amount) -> Amount:
        """Return the product."""
        certainty = max(self.certainty, factor.certainty)
        if self.value is None or factor.value is None:
            return Amount(None, certainty)
        product = 0 if 0 in (self.value, factor.value) else self.value * factor.value
        if _LARGEST < product < math.inf:
            return Amount(None, max(certainty, Certainty.OPEN))
        return Amount(product, certainty)

    def count(self, copies: int = 1) -> Count:
        """Return it as a number for all copies together."""
        at_most = self.certainty in (Certainty.DECLARED, Certainty.GUESSED, Certainty.OPEN)
        if not isinstance(self.value, int) or self.certainty is Certainty.SPOILT:
            return Count(None)
        return Count(self.value * copies, at_most)


ONE = Amount(1)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Finit ports of one instance that are sent different numbers of messages, or messages without end.

    Attributes:
        instance: its id.
        couplings: those that lead to its finit ports, by number of messages, the fewest first.
        numbers: of messages, in the same order; `math.inf` for as many as are asked for.
    """

    instance: str
    couplings: tuple[int, ...]
    numbers: tuple[int | float, ...]


@dataclass(frozen=True)
class Counts:
    """The numbers of one copy of each instance and of one pair of copies of each coupling.

    Attributes:
        runs, steps: by instance; a firing of a mapper is a run, and it has one step.
        sent, delivered, needed: by coupling: before filters, after filters, and what the receiver takes.
        pairs: by coupling, how many pairs of copies it connects.
        is_state: by coupling, whether it carries the state of an instance from run to run.
        unequal: instances whose finit ports are not sent equally many messages.
        unsolved: instances that are called, in the end, by themselves: they never start.
    """

    runs: dict[str, Amount]
    steps: dict[str, Amount]
    sent: tuple[Amount, ...]
    delivered: tuple[Amount, ...]
    needed: tuple[Amount, ...]
    pairs: tuple[int, ...]
    is_state: tuple[bool, ...]
    unequal: tuple[Shortage, ...]
    unsolved: tuple[str, ...]

    @property
    def are_sure(self) -> bool:
        """Whether all numbers are known, and enough messages come everywhere."""
        amounts = {id(amount): amount for amount in (*self.delivered, *self.needed, *self.runs.values())}
        return not (self.unequal or self.unsolved or self.short) and all(each.is_sure for each in amounts.values())

    @cached_property
    def short(self) -> frozenset[int]:
        """The couplings whose receivers surely wait for more messages than come."""
        return frozenset(
            coupling
            for coupling, (delivered, needed) in enumerate(zip(self.delivered, self.needed, strict=True))
            if delivered is not needed and delivered.is_sure and needed.is_sure and _number(delivered) < _number(needed)
        )

    @cached_property
    def surplus(self) -> Mapping[int, int]:
        """By coupling, how many messages surely are never taken, if any; the last state of all does not count."""
        return {
            coupling: int(_number(delivered) - _number(needed))
            for coupling, (delivered, needed) in enumerate(zip(self.delivered, self.needed, strict=True))
            if delivered is not needed
            and delivered.certainty is Certainty.EXACT
            and delivered.is_sure
            and needed.is_sure
            and _number(delivered) > _number(needed)
            and not self.is_state[coupling]
        }


def count(network: Network, uncertain: Collection[str] = ()) -> Counts:
    """Return the numbers of a network. Linear in instances and couplings, whatever the number of steps.

    Args:
        uncertain: sources of which nobody knows how many messages they send.
    """
    return _Counting(network, uncertain).counts()


class _Counting:
    def __init__(self, network: Network, uncertain: Collection[str]) -> None:
        self.network = network
        self.uncertain = uncertain
        # The copies of an instance all do the same: one of them, and one channel of each coupling, stand for all.
        self.processes = {name: network.processes[own[0]] for name, own in network.by_instance.items()}
        self.channels = [network.channels[own[0]] for own in network.by_coupling]
        self.callers: dict[str, list[Channel]] = {name: [] for name in self.processes}
        self.leaving: dict[str, list[Channel]] = {name: [] for name in self.processes}
        for channel in self.channels:
            if calls(channel):
                self.callers[self.receiver(channel)].append(channel)
            self.leaving[self.sender(channel)].append(channel)
        self.steps = {
            name: _steps(process, network.model.instances[name].check_order) for name, process in self.processes.items()
        }
        self.runs: dict[str, Amount] = {}
        self.in_steps: dict[str, Amount] = {}
        self.shared: dict[Amount, Amount] = {}
        self.unequal: list[Shortage] = []

    def sender(self, channel: Channel) -> str:
        return self.network.processes[channel.sender].instance

    def receiver(self, channel: Channel) -> str:
        return self.network.processes[channel.receiver].instance

    def counts(self) -> Counts:
        order, unsolved = self.order_of_calls()
        for name in order:
            self.runs[name] = self.runs_of(name)
        unsolved = self.without_idle(unsolved)
        for name in unsolved:
            self.runs[name] = Amount(None, Certainty.SPOILT)
        for name in reversed(order):
            if self.runs[name].is_endless:
                self.runs[name] = self.runs_asked_for(name)
        self.in_steps.clear()
        sent = tuple(self.sent(channel) for channel in self.channels)
        return Counts(
            runs=self.runs,
            steps=self.steps,
            sent=sent,
            delivered=tuple(map(self.delivery, self.channels, sent)),
            needed=tuple(map(self.need, self.channels)),
            pairs=tuple(len(own) for own in self.network.by_coupling),
            is_state=tuple(channel.is_state for channel in self.channels),
            unequal=tuple(self.unequal),
            unsolved=tuple(unsolved),
        )

    def order_of_calls(self) -> tuple[list[str], list[str]]:
        """Return the instances, callers before called, and those that a cycle of calls keeps from starting."""
        open_calls = {name: len(channels) for name, channels in self.callers.items()}
        ready = [name for name, number in open_calls.items() if number == 0]
        order = []
        while ready:
            name = ready.pop()
            order.append(name)
            for channel in self.leaving[name]:
                if calls(channel):
                    receiver = self.receiver(channel)
                    open_calls[receiver] -= 1
                    if open_calls[receiver] == 0:
                        ready.append(receiver)
        return order, [name for name, number in open_calls.items() if number > 0]

    def without_idle(self, unsolved: Sequence[str]) -> list[str]:
        """Return those in cycles of calls that are not freed by an end.

        A mapper leaves when one of its senders has left, a submodel when all have that call it. Who leaves without a
        run lets those go that it calls.
        """
        left = dict.fromkeys(unsolved)
        to_look_at = list(unsolved)
        while to_look_at:
            name = to_look_at.pop()
            if name not in left:
                continue
            nothing = [self.delivers_nothing(channel) for channel in self.callers[name]]
            if all(nothing) if self.processes[name].is_submodel else any(nothing):
                del left[name]
                self.runs[name] = Amount(0, max(each.certainty for each in nothing if each))
                to_look_at += [self.receiver(channel) for channel in self.leaving[name] if calls(channel)]
        return list(left)

    def delivers_nothing(self, channel: Channel) -> Amount | None:
        """Return the number 0 if the channel carries no message, or perhaps none."""
        if self.sender(channel) not in self.runs:
            return None
        delivered = self.delivery(channel, self.sent(channel))
        return delivered if delivered.value == 0 else None

    def runs_of(self, name: str) -> Amount:
        process, callers = self.processes[name], self.callers[name]
        if not callers:
            if name in self.uncertain:
                return Amount(None, Certainty.OPEN)
            if process.is_source:
                return Amount(math.inf if process.fires is None else process.fires)
            return ONE
        amounts = [self.delivery(channel, self.sent(channel)) for channel in callers]
        certainty = max(amount.certainty for amount in amounts)
        known = [amount.value for amount in amounts if amount.value is not None]
        least = min(known) if known else None
        if process.is_submodel:
            sure = {amount.value for amount in amounts if amount.is_sure or amount.is_endless}
            if len(sure) > 1 or math.inf in sure:
                if certainty is not Certainty.SPOILT:
                    by_number = sorted(
                        (amount.value, channel.coupling)
                        for amount, channel in zip(amounts, callers, strict=True)
                        if amount.value is not None
                    )
                    numbers, couplings = zip(*by_number, strict=True)
                    self.unequal.append(Shortage(name, couplings, numbers))
                return Amount(None if least == math.inf else least, Certainty.SPOILT)
        elif least == math.inf and len(known) < len(amounts):
            least = None
        return Amount(least, certainty)

    def runs_asked_for(self, name: str) -> Amount:
        """Return how often something that sends without end is asked for a message."""
        most, certainty = 0, self.runs[name].certainty
        for channel in self.leaving[name]:
            need = self.need(channel)
            if not isinstance(need.value, int):
                return Amount(None, max(certainty, need.certainty))
            inputs = inputs_for(channel.filters, need.value)
            if inputs is None:
                return Amount(None, max(certainty, need.certainty))
            most, certainty = max(most, inputs), max(certainty, need.certainty)
        return Amount(most, certainty)

    def iterations(self, name: str) -> Amount:
        """Return the iterations of all runs of an instance."""
        if name not in self.in_steps:
            amount = self.runs[name].times(self.steps[name])
            # Equal amounts are one object, so that what fits together is seen at a glance.
            self.in_steps[name] = self.shared.setdefault(amount, amount)
        return self.in_steps[name]

    def sent(self, channel: Channel) -> Amount:
        sender = self.sender(channel)
        return self.iterations(sender) if channel.sender_operator == "Oi" else self.runs[sender]

    def delivery(self, channel: Channel, sent: Amount) -> Amount:
        if channel.filters is NO_FILTERS:
            return sent
        return _through(channel.filters, sent, self.runs[self.sender(channel)])

    def need(self, channel: Channel) -> Amount:
        receiver = self.receiver(channel)
        if channel.receiver_operator in ("S", "B"):
            return self.iterations(receiver)
        runs = self.runs[receiver]
        if channel.is_state and isinstance(runs.value, int):
            return Amount(max(0, runs.value - 1), runs.certainty)
        return runs


def calls(channel: Channel) -> bool:
    """Whether each message of the channel makes its receiver run once (a mapper: fire once)."""
    return channel.receiver_operator in (None, "finit") and not channel.is_state


def _steps(process: Process, keeps_order: bool) -> Amount:
    if not process.is_submodel:
        return ONE
    if process.until:
        return Amount(process.steps if process.has_bound else None, Certainty.OPEN)
    return Amount(process.steps, Certainty.EXACT if keeps_order else Certainty.UNCHECKED)


def _through(filters: FilterCounts, sent: Amount, runs: Amount) -> Amount:
    if filters.is_identity:
        return sent
    trust = Certainty.EXACT
    if not filters.is_exact:
        trust = Certainty.DECLARED if is_one_for_one(filters) else Certainty.GUESSED
    certainty = max(sent.certainty, runs.certainty, trust)
    if sent.value is None or (filters.waits_for_end_of_run and runs.value is None):
        return Amount(None, certainty)
    if math.inf in (sent.value, runs.value):
        return Amount(math.inf if countable_outputs(filters, 2**20, 2**20) else 0, certainty)
    number = countable_outputs(filters, int(sent.value), int(runs.value or 0))
    return Amount(number, certainty if number is not None else max(certainty, Certainty.OPEN))


def _number(amount: Amount) -> int | float:
    return amount.value if amount.value is not None else 0


def total(amounts: Sequence[Amount], copies: Sequence[int]) -> tuple[Count, ...]:
    """Return the numbers for all copies together."""
    known: dict[tuple[int, int], Count] = {}  # few different amounts stand for many couplings
    counts = []
    for amount, number in zip(amounts, copies, strict=True):
        key = (id(amount), number)
        if key not in known:
            known[key] = amount.count(number)
        counts.append(known[key])
    return tuple(counts)
