"""Plans for the tests of the executors, made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xmml_planner import ConduitSpec, Job, Plan, PlannedInstance

MakePlan = Callable[..., Plan]


def instance(name: str, command: Sequence[str] = ("/bin/true",)) -> PlannedInstance:
    """Return an instance that does nothing in particular."""
    return PlannedInstance(
        name=name,
        element=name,
        kind="submodel",
        index=0,
        count=1,
        check_order=True,
        steps=3,
        until=False,
        delta_s=1.0,
        total_s=3.0,
        params={},
        ports=(),
        command=tuple(command),
        env={},
        cores=1,
        folder=f"instances/{name}",
        site="local",
    )


def conduit(number: int, sender: str, receiver: str, capacity: int = 4) -> ConduitSpec:
    """Return a conduit from port `o` to port `i`."""
    name = f"{sender}.o -> {receiver}.i"
    return ConduitSpec(number, name, sender, "o", receiver, "i", capacity, 1 << 26)


@pytest.fixture
def make_plan() -> MakePlan:
    """Return a function that makes a plan from names, pairs that are coupled, and commands."""

    def make(*names: str, couplings: Sequence[tuple[str, str]] = (), **commands: Sequence[str]) -> Plan:
        return Plan(
            model="m",
            model_path="/models/m.xmml",
            model_folder="/models",
            jobs=(Job("all", "local", names),),
            builds=(),
            instances=tuple(instance(name, commands.get(name, ("/bin/true",))) for name in names),
            conduits=tuple(conduit(number, *pair) for number, pair in enumerate(couplings)),
        )

    return make
