"""What a tap is shown, and what of it is decided: nothing."""

from __future__ import annotations

import dataclasses

import pytest
from xmml_executors.coordination import Coordination, Phase
from xmml_executors.coordination_orders import Notice
from xmml_executors.coordinator_events import ConduitTotals, Joined, Left, Lost, Opened, Wait, Waiting
from xmml_executors.queries import AskTap
from xmml_executors.tap_names import TapNames
from xmml_executors.taps import TapRefused, environment_of_tap, tap_spec
from xmml_planner import FIRST_OPENED, ConduitSpec, Plan, PortSpec
from xmml_planner.execution_plan import Cut, PartsSpec, PoolSpec

ALL = AskTap(["*"], "", 1000)


@pytest.fixture
def plan(make_plan) -> Plan:  # type: ignore[no-untyped-def]
    """Two copies of `a`, coupled to `b`: `o` carries messages, `p` objects, `d` parts of arrays; `u` is not coupled."""
    made: Plan = make_plan("a[0]", "a[1]", "b", couplings=[("a[0]", "b"), ("a[1]", "b")])
    spread = PortSpec("d", "out", "Oi", decomposition=(Cut(0, 2),))
    ports = (*(PortSpec(name, "out", "Oi") for name in "opu"), spread, PortSpec("h", "out", None, open=True))
    instances = [dataclasses.replace(each, ports=ports if each.name != "b" else ()) for each in made.instances]
    first = made.conduits[0]
    more = (
        dataclasses.replace(first, id=7, sender_port="p", pool=PoolSpec("step:int!", "step > 1")),
        dataclasses.replace(first, id=8, sender_port="d", parts=PartsSpec((), 0, (), 0)),
    )
    return dataclasses.replace(made, instances=tuple(instances), conduits=(*made.conduits, *more))


def shown(plan: Plan, *ports: str, select: str = "") -> list[str]:
    return [each["name"] for each in tap_spec(plan, "tap-1", AskTap(ports, select, 1000))["conduits"]]


def test_a_pattern_names_ports_of_all_copies_of_an_instance(plan: Plan) -> None:
    assert shown(plan, "a.o") == ["a[0].o -> tap-1.objects", "a[1].o -> tap-1.objects"]
    assert shown(plan, "a[1].o") == ["a[1].o -> tap-1.objects"]
    assert shown(plan, "a.?", "a[0].o") == [f"{port} -> tap-1.objects" for port in ("a[0].o", "a[0].p", "a[1].o")]


def test_objects_of_pools_keep_their_attributes_and_the_writer_never_waits(plan: Plan) -> None:
    [conduit] = tap_spec(plan, "tap-1", AskTap(["a.p"], "step = 3", 1000))["conduits"]
    assert conduit["pool"] == {
        "attributes": "step:int!",
        "select": "step = 3",
        "variables": {},
        "may_lose": True,
        "is_tap": True,
    }
    assert conduit["byte_budget"] == 1000


@pytest.mark.parametrize(
    ("port", "select", "why"),
    [
        ("b.o", "", 'no out port is called "b.o"; did you mean "a.o"'),
        ("b", "", 'no out port is called "b"'),
        ("a", "", '"a" is an instance, and ports are shown; did you mean "a.*"?'),
        ("a[1]", "", 'did you mean "a.*"?'),
        ("a.u", "", "a[0].u cannot be tapped: it is not coupled"),
        ("a.d", "", "a[0].d cannot be tapped: it sends parts of arrays (run:decomp)"),
        ("a.h", "", "a[0].h cannot be tapped: handles say where it leads (run:open)"),
        ("a.p", "stepp = 3", "the selector cannot be read"),
        ("a.o", "step = 3", "none but those of the system"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_a_reason(plan: Plan, port: str, select: str, why: str) -> None:
    with pytest.raises(TapRefused) as caught:
        shown(plan, port, select=select)
    assert why in str(caught.value)


def test_a_tap_has_a_name_that_no_instance_and_no_tap_before_it_has() -> None:
    names = TapNames({"a", "tap-2"})
    assert names.next() == names.next() == "tap-1", "nobody has got it so far"
    names.add("tap-1")
    assert "tap-1" in names
    assert names.next() not in {"tap-1", "tap-2"}
    names.remove("tap-1")
    assert "tap-1" not in names
    assert names.next() != "tap-1", "it may still be known by this name"


def test_a_tap_gets_what_it_joins_with_and_nothing_else() -> None:
    joining = {"PATH": "/bin", "XMML_COORDINATOR": "unix:@x"}
    assert environment_of_tap("tap-1", joining, None) == {"XMML_COORDINATOR": "unix:@x", "XMML_INSTANCE": "tap-1"}
    assert environment_of_tap("tap-1", joining, "login:1/a")["XMML_RELAY"] == "login:1/a"


def tapped(plan: Plan) -> Coordination:
    run = Coordination(plan)
    for number, name in enumerate(run.records):
        run.on_started(name, 100 + number, 0.0)
        run.on_native(Joined(name, 100, "here", "python", "1.0"), 0.0)
    run.taps.add("tap-1")
    conduit = ConduitSpec(
        FIRST_OPENED,
        "a[0].o -> tap-1.objects",
        "a[0]",
        "o",
        "tap-1",
        "objects",
        0,
        1000,
        pool=PoolSpec("", is_tap=True),
    )
    run.on_native(Opened("tap-1", conduit), 0.0)
    return run


def test_nothing_of_a_run_depends_on_a_tap(plan: Plan) -> None:
    run = tapped(plan)
    told = [
        *run.on_native(Joined("tap-1", 9, "here", "python", "1.0"), 1.0),
        *run.on_native(Waiting("tap-1", 1, (Wait(FIRST_OPENED, "receive"),), False, False, {}, {}), 2.0),
        *run.on_native(Lost("tap-1"), 3.0),
    ]
    assert told == [
        Notice("tap-1 has joined and is shown what passes"),
        Notice("tap-1 has exited, or has lost its connection, and is shown nothing more"),
    ]
    assert run.look_for_deadlock(3.0) == []
    assert run.phase is Phase.RUNNING
    assert set(run.records) == {"a[0]", "a[1]", "b"}


def test_nothing_is_kept_of_a_tap_that_has_left(plan: Plan) -> None:
    run = tapped(plan)
    before = set(Coordination(plan).conduits.by_id)
    waits = (Wait(FIRST_OPENED, "settled"),)
    run.on_native(Waiting("a[0]", 1, waits, False, False, {FIRST_OPENED: 3}, {}), 1.0)
    run.on_native(Left("tap-1", 1, (), 0.0), 1.0)
    assert set(run.conduits.by_id) == before
    assert run.records["a[0]"].waits_for == ()
    assert run.on_native(Waiting("a[0]", 2, waits, False, False, {FIRST_OPENED: 3}, {}), 1.1) == []
    assert run.look_for_deadlock(1.1) == []
    totals = (ConduitTotals(plan.conduits[0].id, 5, 0, 50, 0), ConduitTotals(FIRST_OPENED, 3, 0, 30, 1234))
    assert run.on_native(Left("a[0]", 1, totals, 0.0), 2.0) == []
    assert run.records["a[0]"].messages_sent == 5


def test_what_a_tap_was_shown_is_not_counted_as_sent_and_what_it_missed_is_told(plan: Plan) -> None:
    run = tapped(plan)
    totals = (ConduitTotals(plan.conduits[0].id, 5, 0, 50, 0), ConduitTotals(FIRST_OPENED, 3, 0, 30, 1234))
    [told] = run.on_native(Left("a[0]", 1, totals, 0.0), 1.0)
    assert told == Notice(
        "tap-1 missed up to 1,234 objects of a[0].o: it was too slow; --limit says how many wait", "a[0]"
    )
    record = run.records["a[0]"]
    assert (record.messages_sent, record.bytes_sent, record.dropped) == (5, 50, 0)
