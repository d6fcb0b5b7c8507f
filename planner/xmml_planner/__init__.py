"""From a model to an execution plan: what is started where, with which command, wired how.

>>> from xmml_planner import plan
>>> made = plan(model)                                   # doctest: +SKIP
>>> pathlib.Path("plan.json").write_text(made.to_text())  # doctest: +SKIP
"""

from __future__ import annotations

from xmml_planner.execution_plan import (
    FIRST_OPENED,
    Build,
    ConduitSpec,
    FilterSpec,
    Job,
    Plan,
    PlannedInstance,
    PortSpec,
    opened_conduit,
    plan_from_text,
)
from xmml_planner.plain_values import PlanFormatError
from xmml_planner.planning import missing_programs, plan
from xmml_planner.problems import NoPlan, WishError
from xmml_planner.summary import summary

__all__ = [
    "FIRST_OPENED",
    "Build",
    "ConduitSpec",
    "FilterSpec",
    "Job",
    "NoPlan",
    "Plan",
    "PlanFormatError",
    "PlannedInstance",
    "PortSpec",
    "WishError",
    "missing_programs",
    "opened_conduit",
    "plan",
    "plan_from_text",
    "summary",
]
