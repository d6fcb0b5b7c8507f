"""What instances have sent and received in all, as they say when they leave, and what people should know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml_planner import ConduitSpec, Plan

from xmml_executors import coordinator_events as events
from xmml_executors.conduits import Conduits
from xmml_executors.coordination_orders import Notice
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.unmatched_selectors import UnmatchedSelectors


class FinalCounts:
    """The totals of conduits of which one end has left so far."""

    def __init__(self, plan: Plan, conduits: Conduits, records: Mapping[str, InstanceRecord]) -> None:
        """Begin when nobody has left."""
        self._conduits = conduits
        self._records = records
        self._unmatched = UnmatchedSelectors(plan)
        #: How many objects were put for the reader of a pool whose writer has left.
        self._put: dict[int, int] = {}
        #: Messages replaced, and put, of latest conduits of which one end has left.
        self._one_end: dict[int, tuple[int, int]] = {}

    def on_left(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> list[Notice]:
        """Take over the totals of an instance that has left; return what people should know, if the run goes on."""
        self._count(record, [each for each in totals if not self._conduits.leads_to_tap(each.conduit)])
        return [
            *self._dropped(record, totals),
            *self._untaken(record, totals),
            *self._replaced(record, totals),
            *self._unmatched.on_left(record, totals),
        ]

    def _dropped(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> list[Notice]:
        """Say which messages nobody received because their receiver had left; programs rarely mean that."""
        notices: list[Notice] = []
        for each in totals:
            if each.dropped:
                conduit = self._conduits.by_id.get(each.conduit)
                if conduit is None:
                    continue  # of a tap that has left
                what = "messages" if conduit.pool is None else "objects"
                may_lose = conduit.pool is not None and conduit.pool.may_lose
                why = "as run:loss allows" if may_lose else "the receiver had left"
                told = f"{each.dropped:,} of its {what} on {conduit.name} were not received: {why}"
                if self._conduits.leads_to_tap(each.conduit):
                    told = _missed(conduit, each.dropped)
                notices.append(Notice(told, record.name))
        return notices

    def _untaken(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> list[Notice]:
        """Say which objects a reader left behind of writers that had left before."""
        notices: list[Notice] = []
        for each in totals:
            conduit = self._conduits.by_id.get(each.conduit)
            if conduit is None or conduit.pool is None or conduit.pool.is_queue:
                continue  # what a reader of a queue leaves goes to the others
            if conduit.sender == record.name:
                self._put[conduit.id] = each.sent - each.dropped
            untaken = self._put.get(conduit.id, 0) - each.received
            if conduit.receiver == record.name and untaken > 0:
                left = f"it left without {untaken:,} objects that were put for it on {conduit.name}"
                notices.append(Notice(f"{left}; it should take until there are no more", record.name))
        return notices

    def _replaced(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> list[Notice]:
        """Say how many messages were replaced by newer ones, as soon as both ends of a conduit have said it."""
        notices: list[Notice] = []
        for each in totals:
            conduit = self._conduits.by_id.get(each.conduit)
            if conduit is None or conduit.pool is None or not conduit.pool.is_latest:
                continue
            replaced = each.replaced
            at_sender = conduit.sender == record.name and not each.received
            put = each.sent + replaced if at_sender else 0
            other = self._one_end.pop(conduit.id, None)
            if other is None:
                self._one_end[conduit.id] = (replaced, put)
                continue
            replaced, put = replaced + other[0], put + other[1]
            told = f"{replaced:,} of {put:,} messages were replaced by newer ones"
            self._records[conduit.sender].replaced[conduit.id] = told
            if replaced:
                notices.append(Notice(f"{conduit.name}: {told}", record.name))
        return notices

    def _count(self, record: InstanceRecord, totals: Sequence[events.ConduitTotals]) -> None:
        """Take over the final counts; a conduit from an instance to itself counts at both ends."""
        record.messages_sent = sum(each.sent for each in totals)
        record.messages_received = sum(each.received for each in totals)
        record.bytes_sent = sum(each.bytes for each in totals if each.sent)
        record.bytes_received = sum(each.bytes for each in totals if each.received)
        record.dropped = sum(each.dropped for each in totals)


def _missed(conduit: ConduitSpec, count: int) -> str:
    """Return what is told of objects that a tap was too slow for."""
    port = f"{conduit.sender}.{conduit.sender_port}"
    return f"{conduit.receiver} missed up to {count:,} objects of {port}: it was too slow; --limit says how many wait"
