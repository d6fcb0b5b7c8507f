"""What people see while a model runs."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console
from xmml_executors.instance_record import Awaited, InstanceRecord, Lifecycle
from xmml_planner import ConduitSpec, Job, Plan, PlannedInstance, PortSpec
from xmml_run.display import (
    NoDisplay,
    PlainLines,
    called_instances,
    end_of_run,
    fraction,
    model_time,
    state_in_words,
    summary_line,
    table,
)


def instance(name: str = "a", **values: object) -> PlannedInstance:
    fields: dict[str, object] = {
        "name": name,
        "element": name,
        "kind": "submodel",
        "index": 0,
        "count": 1,
        "check_order": True,
        "steps": 10,
        "until": False,
        "delta_s": 60.0,
        "total_s": 600.0,
        "params": {},
        "ports": (),
        "command": ("/bin/true",),
        "env": {},
        "cores": 1,
        "folder": f"instances/{name}",
        "site": "local",
    }
    return PlannedInstance(**(fields | values))  # type: ignore[arg-type]


def plan(*names: str) -> Plan:
    conduit = ConduitSpec(0, f"{names[0]}.o -> {names[-1]}.i", names[0], "o", names[-1], "i", 4, 1)
    return Plan(
        "m", "/m.xmml", "/", (Job("all", "local", names),), (), tuple(instance(name) for name in names), (conduit,)
    )


def test_lines_have_the_name_of_the_instance_in_front() -> None:
    out, err = io.StringIO(), io.StringIO()
    lines = PlainLines(["a", "long"], out, err, colour=False)
    lines.output("a", "stdout", "hello")
    lines.output("long", "stderr", "oh")
    assert out.getvalue() == "a    | hello\n"
    assert err.getvalue() == "long | oh\n"


def test_names_are_coloured_on_a_terminal() -> None:
    out = io.StringIO()
    PlainLines(["a"], out, out, colour=True).output("a", "stdout", "hello")
    assert out.getvalue() == "\x1b[36ma\x1b[0m | hello\n"


def test_quiet_shows_notices_only() -> None:
    err = io.StringIO()
    display = NoDisplay(err)
    display.output("a", "stdout", "hello")
    display.notice("the clocks drift", "a")
    assert err.getvalue() == "warning: a: the clocks drift\n"


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (InstanceRecord("a"), 0.0),
        (InstanceRecord("a", Lifecycle.RUNNING, iteration=5), 0.5),
        (InstanceRecord("a", Lifecycle.LEFT), 1.0),
    ],
)
def test_progress_is_the_share_of_the_steps(record: InstanceRecord, expected: float) -> None:
    assert fraction(instance(), record) == expected


def test_a_mapper_has_no_progress_bar() -> None:
    assert fraction(instance(kind="mapper"), InstanceRecord("a", Lifecycle.RUNNING)) is None


def test_an_instance_that_is_called_is_as_far_as_its_model_time() -> None:
    caller, micro = instance("caller"), instance("micro", ports=(PortSpec("i", "in", "finit"),), total_s=1.0, steps=1)
    conduit = ConduitSpec(0, "caller.o -> micro.i", "caller", "o", "micro", "i", 4, 1)
    made = dataclasses.replace(plan("caller", "micro"), instances=(caller, micro), conduits=(conduit,))
    assert called_instances(made) == {"micro"}
    assert end_of_run(made, {"micro"}) == 600.0
    record = InstanceRecord("micro", Lifecycle.RUNNING)
    record.run, record.time = 6, 300.0
    assert fraction(micro, record, 600.0) == 0.5


def test_the_state_of_its_own_previous_run_does_not_make_an_instance_a_called_one() -> None:
    lonely = instance("lonely", ports=(PortSpec("before", "in", "finit"), PortSpec("after", "out", "Of")))
    conduit = ConduitSpec(0, "state", "lonely", "after", "lonely", "before", 4, 1, is_state=True)
    made = dataclasses.replace(plan("lonely"), instances=(lonely,), conduits=(conduit,))
    assert called_instances(made) == set()


def test_model_time_is_shown_against_its_total() -> None:
    assert (
        model_time(instance(), InstanceRecord("a", Lifecycle.RUNNING, run=1, time=90.0, joined_at=1.0))
        == "90 s of 600 s"
    )


def test_of_several_runs_the_present_one_is_told() -> None:
    record = InstanceRecord("a", Lifecycle.RUNNING, run=4, time=90.0, joined_at=1.0)
    assert model_time(instance(), record) == "run 4, 90 s"


def test_one_that_waits_says_for_whom() -> None:
    record = InstanceRecord("b", Lifecycle.RUNNING, waits_for=(Awaited("a", "a.o -> b.i"),))
    assert state_in_words(plan("a", "b"), record) == "waits for a"


def test_the_table_has_a_row_for_each_instance_up_to_a_limit() -> None:
    names = tuple(f"n{number}" for number in range(30))
    console = Console(file=io.StringIO(), width=120)
    console.print(table(plan(*names), {name: InstanceRecord(name) for name in names}))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "n23" in text
    assert "n24" not in text
    assert "and 6 more" in text


def shown(plan: Plan) -> list[str]:
    """Return the lines of the live table of a plan whose instances are about to run."""
    console = Console(file=io.StringIO(), width=120)
    console.print(table(plan, {each.name: InstanceRecord(each.name) for each in plan.instances}))
    lines: list[str] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return lines


def test_the_table_of_a_run_over_sites_says_where_each_instance_runs() -> None:
    names = [f"n{number}" for number in range(30)]
    over_sites = [instance(name, site=("alpha", "beta")[number % 2]) for number, name in enumerate(names)]
    head, *rows, last = shown(dataclasses.replace(plan(*names), instances=tuple(over_sites)))
    assert head.split()[:2] == ["site", "state"]
    assert [row.split()[:2] for row in rows[:3]] == [["n0", "alpha"], ["n1", "beta"], ["n2", "alpha"]]
    column = head.index("site")
    assert {row.index(row.split()[1]) for row in rows} == {column}
    assert last.index("6 more") < column
    assert last.index("0 ended") == head.index("state")


def test_the_table_of_a_run_at_one_site_does_not_say_where() -> None:
    head, row = shown(plan("a"))
    assert "site" not in head
    assert "local" not in row


def test_the_summary_counts_each_message_once() -> None:
    records = {
        "a": InstanceRecord("a", messages_sent=3, bytes_sent=3000),
        "b": InstanceRecord("b", messages_received=3, bytes_received=3000),
    }
    assert summary_line(plan("a", "b"), 2.0, records) == "m: 2 instances ran 2.0 s and exchanged 3 messages (3 kB)"


def test_the_summary_tells_how_long_programs_ran_apart_from_what_the_launch_took() -> None:
    records = {
        "a": InstanceRecord("a", started_at=40.0, ended_at=42.0),
        "b": InstanceRecord("b", started_at=40.5, ended_at=42.5),
    }
    assert summary_line(plan("a", "b"), 47.0, records).startswith(
        "m: 2 instances ran 2.5 s, 47.0 s since the launch, and"
    )
    assert summary_line(plan("a", "b"), 3.0, records).startswith("m: 2 instances ran 2.5 s and")
