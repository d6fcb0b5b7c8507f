"""Readers that got nothing because no object satisfied their selectors."""

from __future__ import annotations

import dataclasses

from xmml_executors.coordinator_events import ConduitTotals
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.unmatched_selectors import UnmatchedSelectors
from xmml_planner.execution_plan import PoolSpec


def test_objects_that_ranks_put_together_are_counted_once(make_plan) -> None:  # type: ignore[no-untyped-def]
    plan = make_plan(
        "w", "w#1", "picky", "all", couplings=[("w", "picky"), ("w", "all"), ("w#1", "picky"), ("w#1", "all")]
    )
    selects = ["step > 5", "", "step > 5", ""]
    conduits = [dataclasses.replace(each, pool=PoolSpec("step:int!", selects[each.id])) for each in plan.conduits]
    further = {"w#1": {"rank_of": "w", "element": "w"}}
    instances = [dataclasses.replace(each, **further.get(each.name, {})) for each in plan.instances]
    plan = dataclasses.replace(plan, conduits=tuple(conduits), instances=tuple(instances))
    unmatched = UnmatchedSelectors(plan)
    told = []
    for name in ("w", "w#1", "all", "picky"):
        totals = [
            ConduitTotals(
                each.id, sent=4 * (each.sender == name) * (not each.pool.select), received=0, bytes=0, dropped=0
            )
            for each in plan.conduits
            if name in (each.sender, each.receiver) and each.pool is not None
        ]
        told += unmatched.on_left(InstanceRecord(name), totals)
    assert [notice.text for notice in told] == ['picky received none of the 4 objects of w.o (run:select="step > 5")']
