"""Deadlock at run time: who waits for whom, and what to do about it.

An instance that waits longer than a moment reports the conduits it waits for, an epoch that names this wait, and how
many messages it has sent and received on each conduit. It goes on only when all of these conduits let it. So a cycle
among the reports is a deadlock, provided nothing is on its way between two of its members, which the counts tell, and
each of them is still in the wait it reported, which it is asked to confirm.

One that has callbacks goes on when anything comes: it is stuck only if all are that it waits for. So is one that waits
at an open port (`run:open`): for anybody who has, or may still be sent, a handle of it.

A cycle with a send on a full conduit is no fault of the model: the conduit was too small (Parks 1995, Bounded
Scheduling of Process Networks). It grows.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Literal

from xmml_planner import FIRST_OPENED, ConduitSpec
from xmml_planner.ranks import RANK_MARK

from xmml.late_dataclass import dataclass

#: As many as a conduit can count.
_MOST_MESSAGES = 2**32 - 1

WaitKind = Literal["receive", "send", "settled", "holders"]


@dataclass(frozen=True)
class WaitReport:
    """What a waiting instance reports.

    Attributes:
        epoch: names this wait; a later wait has a larger one.
        waits: conduits it waits for, all of them; of kind "settled", until the receiver has dealt with its objects of a
            queue; of kind "holders", whoever may have a handle of it.
        is_any: any one of them lets it go on.
        is_timed: it goes on after some time, whatever happens.
        sent, received: its messages so far, by conduit.
    """

    instance: str
    epoch: int
    waits: tuple[tuple[int, WaitKind], ...]
    sent: Mapping[int, int] = field(default_factory=dict)
    received: Mapping[int, int] = field(default_factory=dict)
    is_any: bool = False
    is_timed: bool = False


@dataclass(frozen=True)
class WaitEdge:
    """One step of a cycle: `waiter` waits on `conduit` for `partner`, to send (room for a message) or to receive (a
    message)."""

    waiter: str
    partner: str
    conduit: int
    kind: WaitKind


@dataclass(frozen=True)
class Grow:
    """The verdict that a conduit was too small."""

    conduit: int
    capacity: int


def find_cycle(
    waiting: Mapping[str, WaitReport],
    conduits: Mapping[int, ConduitSpec],
    mappers: Collection[str] = (),
    staying: Collection[str] = (),
) -> tuple[WaitEdge, ...] | None:
    """Return a cycle of waiting instances between which nothing is on its way, or `None`.

    A mapper goes on also when one of the conduits it waits for ends: it counts only if none of its partners can go on.
    `staying` are the instances that have not left yet: any of them may have a handle.

    Of several cycles it returns one, always the same for the same
    reports.
    """
    links = _stuck_links(waiting, conduits, mappers, staying)
    finished: set[str] = set()
    for start in links:
        found = _cycle_from(start, links, finished)
        if found is not None:
            return found
    return None


def concerned(
    cycle: Sequence[WaitEdge],
    waiting: Mapping[str, WaitReport],
    conduits: Mapping[int, ConduitSpec],
    mappers: Collection[str] = (),
    staying: Collection[str] = (),
) -> frozenset[str]:
    """Return whose waits the verdict about a cycle rests on: its members, and those a mapper or an open port waits
    for."""
    links = _stuck_links(waiting, conduits, mappers, staying)
    found = {link.waiter for link in cycle}
    queue = [name for name in found if name in mappers or _goes_on_with_any(waiting[name])]
    while queue:
        for link in links[queue.pop()]:
            if link.partner not in found:
                found.add(link.partner)
                queue.append(link.partner)
    return frozenset(found)


def _stuck_links(
    waiting: Mapping[str, WaitReport],
    conduits: Mapping[int, ConduitSpec],
    mappers: Collection[str],
    staying: Collection[str],
) -> dict[str, list[WaitEdge]]:
    """Return the links of every waiting instance, without those that a mapper's end or a holder of a handle may
    release."""
    links = {name: _links(report, waiting, conduits, staying) for name, report in sorted(waiting.items())}
    senders = {name: _senders(waiting[name], conduits) for name in mappers if name in waiting}
    released_by_one = {name for name, its in senders.items() if len(its) > 1}
    for name in [name for name, report in waiting.items() if _goes_on_with_any(report)]:
        senders[name] = _awaited(waiting[name], conduits, staying)
        released_by_one.add(name)
    if not released_by_one:
        return links
    waiters = defaultdict(list)
    for link in itertools.chain.from_iterable(links.values()):
        waiters[link.partner].append(link.waiter)
    unreleased = {name: len(its) for name, its in links.items()}
    released: set[str] = set()
    queue = [name for name, its in links.items() if not its]
    queue += [name for name in sorted(released_by_one) if not waiting.keys() >= senders[name]]
    # What is on its way from one of them is enough.
    goes_on = [name for name in sorted(released_by_one) if _goes_on_with_any(waiting[name])]
    queue += [name for name in goes_on if {link.partner for link in links[name]} != senders[name]]
    while queue:
        name = queue.pop()
        if name in released:
            continue
        released.add(name)
        for waiter in waiters[name]:
            unreleased[waiter] -= 1
            if not unreleased[waiter] or waiter in released_by_one:
                queue.append(waiter)
    return {
        name: [] if name in released else [link for link in its if link.partner not in released]
        for name, its in links.items()
    }


def _senders(report: WaitReport, conduits: Mapping[int, ConduitSpec]) -> set[str]:
    return {conduits[number].sender for number, kind in report.waits if kind == "receive"}


def _goes_on_with_any(report: WaitReport) -> bool:
    return report.is_any or is_for_holders(report)


def is_for_holders(report: WaitReport) -> bool:
    """Whether it waits at an open port: then everybody who has not left counts."""
    return any(kind == "holders" for _, kind in report.waits)


def _awaited(report: WaitReport, conduits: Mapping[int, ConduitSpec], staying: Collection[str]) -> set[str]:
    """Return who can let go on one that goes on with any of what it waits for."""
    holders = _holders(report.instance, conduits, staying) if is_for_holders(report) else set()
    receivers = {conduits[number].receiver for number, kind in report.waits if kind == "send"}
    return holders | receivers | _senders(report, conduits)


def _holders(name: str, conduits: Mapping[int, ConduitSpec], staying: Collection[str]) -> set[str]:
    """Return who may send to the open ports of an instance: everybody else, and itself if it has a handle open."""
    others = {other for other in staying if other.split(RANK_MARK)[0] != name}
    opened = (conduit for conduit in conduits.values() if conduit.sender == conduit.receiver == name)
    return others | {conduit.sender for conduit in opened if conduit.id >= FIRST_OPENED}


def _is_silent(waiter: WaitReport, partner: WaitReport, conduits: Mapping[int, ConduitSpec]) -> bool:
    """Whether nothing that was sent by handles is on its way from `partner` to `waiter`."""
    return all(
        count == waiter.received.get(number, 0)
        for number, count in partner.sent.items()
        if number >= FIRST_OPENED and conduits[number].receiver == waiter.instance
    )


def _links(
    report: WaitReport, waiting: Mapping[str, WaitReport], conduits: Mapping[int, ConduitSpec], staying: Collection[str]
) -> list[WaitEdge]:
    links = []
    if is_for_holders(report):
        partners = sorted(_holders(report.instance, conduits, staying) & waiting.keys())
        silent = [name for name in partners if _is_silent(report, waiting[name], conduits)]
        links += [WaitEdge(report.instance, name, 0, "holders") for name in silent]
    for number, kind in report.waits:
        if kind == "holders":
            continue
        conduit = conduits[number]
        partner = conduit.sender if kind == "receive" else conduit.receiver
        other = waiting.get(partner)
        if other is not None and _is_stuck(number, kind, report, other):
            links.append(WaitEdge(report.instance, partner, number, kind))
    return links


def _is_stuck(conduit: int, kind: WaitKind, waiter: WaitReport, partner: WaitReport) -> bool:
    """Whether the counts of both ends say that no message and no receipt is on its way."""
    if kind == "receive":
        return partner.sent.get(conduit, 0) == waiter.received.get(conduit, 0)
    return waiter.sent.get(conduit, 0) > partner.received.get(conduit, 0)


def _cycle_from(start: str, links: Mapping[str, Sequence[WaitEdge]], finished: set[str]) -> tuple[WaitEdge, ...] | None:
    """Search in depth from `start`; `finished` are the instances that lead to no cycle."""
    path: list[WaitEdge] = []
    on_path = {start: 0}
    iterators = [iter(links[start])]
    while iterators:
        link = next(iterators[-1], None)
        if link is None:
            iterators.pop()
            done = path.pop().partner if path else start
            finished.add(done)
            del on_path[done]
        elif link.partner in on_path:
            return (*path[on_path[link.partner] :], link)
        elif link.partner not in finished:
            path.append(link)
            on_path[link.partner] = len(path)
            iterators.append(iter(links[link.partner]))
    return None


def judge(cycle: Sequence[WaitEdge], capacities: Mapping[int, int]) -> Grow | None:
    """Return which conduit must grow to end the cycle, or `None` if it is a deadlock: everyone in it waits for a
    message.

    The smallest full conduit is doubled, so that a model that needs n messages of room gets them in log n steps; of a
    pool its limit is.
    """
    full = [link.conduit for link in cycle if link.kind == "send"]
    if not full:
        return None
    smallest = min(full, key=lambda conduit: (capacities[conduit], conduit))
    return Grow(smallest, min(2 * capacities[smallest], _MOST_MESSAGES))


def witness(cycle: Sequence[WaitEdge], waiting: Mapping[str, WaitReport], conduits: Mapping[int, ConduitSpec]) -> str:
    """Return the cycle in words: who waits for whom, at which port, after how many messages."""
    return "; ".join(_step(link, waiting, conduits) for link in cycle)


def _step(link: WaitEdge, waiting: Mapping[str, WaitReport], conduits: Mapping[int, ConduitSpec]) -> str:
    if link.kind == "holders":
        return f"{link.waiter} waits at an open port for whoever has a handle of it; {link.partner} sends nothing"
    conduit = conduits[link.conduit]
    if link.kind == "send":
        return (
            f"{link.waiter} waits at {conduit.sender_port} for room to send to {link.partner}.{conduit.receiver_port}"
        )
    if link.kind == "settled":
        return f"{link.waiter} waits until {link.partner} has dealt with its objects of {conduit.sender_port}"
    received = waiting[link.waiter].received.get(conduit.id, 0)
    if conduit.pool is not None and conduit.pool.is_latest and received:
        return (
            f"{link.waiter} waits at {conduit.receiver_port} for a newer object of {link.partner}.{conduit.sender_port}"
        )
    noun = "message" if conduit.pool is None else "object"
    number = f"{noun} {received + 1}" if received else f"the first {noun}"
    return f"{link.waiter} waits at {conduit.receiver_port} for {number} of {link.partner}.{conduit.sender_port}"
