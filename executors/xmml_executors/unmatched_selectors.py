"""Selectors that no object has satisfied: a reader that gets nothing ends well, and people would wonder why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xmml_planner import Plan

from xmml.late_dataclass import dataclass
from xmml_executors import coordinator_events as events
from xmml_executors.coordination_orders import Notice
from xmml_executors.instance_record import InstanceRecord

#: Selectors that choose every object.
_ALL = ("", "true")


@dataclass
class _Group:
    """The conduits of a coupling, between all copies of its two ends.

    Attributes:
        awaited: the ends of conduits, by number and instance, that have not left.
        chosen: how many objects the selector has chosen.
    """

    sender: str
    sender_port: str
    receiver: str
    select: str
    awaited: set[tuple[int, str]] = field(default_factory=set)
    chosen: int = 0


class UnmatchedSelectors:
    """The pools of a plan that have a selector, and how many objects they have carried so far."""

    def __init__(self, plan: Plan) -> None:
        """Begin when nobody has left."""
        self._element = {instance.name: instance.element for instance in plan.instances}
        self._groups: dict[int, _Group] = {}
        #: The out ports of instances by the conduits that carry every object, and how many were put there.
        self._carries_all: dict[int, tuple[str, str]] = {}
        self._put: dict[tuple[str, str], int] = {}
        ranks = {instance.name for instance in plan.instances if instance.rank_of is not None}
        groups: dict[tuple[str, str, str, str], _Group] = {}
        for each in plan.conduits:
            if each.pool is None:
                continue
            if each.pool.select in _ALL:
                # Of ranks that put together, each has put as often as rank 0.
                loses = each.pool.is_queue or each.pool.may_lose or each.pool.is_latest
                if not loses and each.sender not in ranks:
                    self._carries_all[each.id] = (each.sender, each.sender_port)
                continue
            sender, receiver = self._element[each.sender], self._element[each.receiver]
            key = (sender, each.sender_port, receiver, each.receiver_port)
            group = groups.setdefault(key, _Group(sender, each.sender_port, receiver, each.pool.select))
            group.awaited |= {(each.id, each.sender), (each.id, each.receiver)}
            self._groups[each.id] = group

    def on_left(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> list[Notice]:
        """Take over the totals of an instance that has left. As soon as all copies of both ends of a coupling have, say
        whether its reader got nothing."""
        notices: list[Notice] = []
        for each in totals:
            port = self._carries_all.get(each.conduit)
            if port is not None and port[0] == record.name:
                self._put[port] = max(self._put.get(port, 0), each.sent)
        for each in totals:
            group = self._groups.get(each.conduit)
            if group is None or (each.conduit, record.name) not in group.awaited:
                continue
            group.awaited.remove((each.conduit, record.name))
            group.chosen += each.sent + each.replaced
            if not group.awaited and not group.chosen:
                notices.append(Notice(self._in_words(group)))
        return notices

    def _in_words(self, group: _Group) -> str:
        """Return what is told of a reader that got nothing; how many objects were put is known if another reader got
        them all."""
        port, select = f"{group.sender}.{group.sender_port}", f'run:select="{group.select}"'
        put = sum(
            count
            for (sender, name), count in self._put.items()
            if self._element[sender] == group.sender and name == group.sender_port
        )
        if put:
            return f"{group.receiver} received none of the {put:,} objects of {port} ({select})"
        return f"{group.receiver} received no object of {port}: none that was put satisfies {select}"
