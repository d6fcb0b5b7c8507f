"""Bound ports: looked up once, then used without their names."""

from __future__ import annotations

import gc
import inspect
import pickle
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gates import awaits, says
from xmml_native import Error, InPort, Instance, Message, OrderError, OutPort, PortError, ReceiveTimeoutError

PORTS = {"out": "Oi", "in": "S"}


def cell(**options: Any) -> Instance:
    return Instance.alone(name="cell", **{"ports": PORTS, "check_order": False, **options})


def said(call: Callable[[], object]) -> str:
    """What a call raises, without the place of the call."""
    with pytest.raises(PortError) as caught:
        call()
    return re.sub(r" \(called at .*\)$", "", str(caught.value))


def test_a_misspelt_port_is_the_error_of_a_call_when_it_is_bound() -> None:
    me = cell()
    assert said(lambda: me.out("powr")) == said(lambda: me.send("powr"))
    assert said(lambda: me.in_("powr")) == said(lambda: me.receive("powr"))


def test_a_port_of_the_other_direction_is_the_error_of_a_call_when_it_is_bound() -> None:
    me = cell()
    assert said(lambda: me.out("in")) == said(lambda: me.send("in"))
    assert said(lambda: me.in_("out")) == said(lambda: me.receive("out"))


def test_a_bound_port_says_what_it_is() -> None:
    me = cell()
    assert (me.out("out").name, me.in_("in").name) == ("out", "in")
    assert (repr(me.out("out")), repr(me.in_("in"))) == ("<OutPort cell.out>", "<InPort cell.in>")


def test_a_bound_port_sends_what_a_call_by_name_does() -> None:
    me = cell()
    out = me.out("out")
    assert out.connected()
    assert out.copies() == 0
    values = [None, True, 3, 2.5, 1j, "text", b"bytes", [1, {"k": "v"}], Message("passed", 4.0, 5.0)]
    for value in values:
        assert out.send(value, 1.0)
        assert me.send("out", value, 1.0)
    sent = [(message.data, message.timestamp, message.next_timestamp) for message in me.outputs["out"]]
    assert sent[::2] == sent[1::2]


def test_a_bound_port_takes_explicit_time_stamps() -> None:
    me = cell()
    out = me.out("out")
    out.send(1, 7.0, 9.0)
    out.send(2, timestamp=9.0, next_timestamp=None)
    assert [(m.timestamp, m.next_timestamp) for m in me.outputs["out"]] == [(7.0, 9.0), (9.0, None)]


def test_a_bound_port_addresses_one_copy() -> None:
    me = cell(inputs={"in[0]": [5], "in[1]": [6]}, copies={"out": 2, "in": 2})
    out, into = me.out("out"), me.in_("in")
    out.send("first", to=0)
    assert (out.copies(), into.copies()) == (2, 2)
    assert {port: len(messages) for port, messages in me.outputs.items()} == {"out[0]": 1, "out[1]": 0}
    assert into.has_message(1)
    assert into.receive(of=1).data == 6
    assert into.receive(of=0).data == 5


def test_a_bound_port_receives_of_all_copies() -> None:
    me = cell(inputs={"in[0]": [5], "in[1]": [6]}, copies={"in": 2})
    assert [message.data for message in me.in_("in").receive_all()] == [5, 6]


def test_a_bound_port_receives_until_the_end() -> None:
    me = cell(inputs={"in": [1, 2, 3]})
    into = me.in_("in")
    assert into.receive(timeout=1.0).data == 1
    first = into.receive_or_end()
    assert first is not None
    assert first.data == 2
    assert [message.data for message in into.messages()] == [3]
    assert into.receive_or_end() is None


def test_a_bound_port_that_is_not_coupled_takes_the_default() -> None:
    into = cell().in_("in")
    assert not into.connected()
    assert into.receive(default=4.5).data == 4.5
    assert into.receive(default=None).data is None
    with pytest.raises(PortError, match="default"):
        into.receive()


def test_a_time_out_names_the_bound_port(run: Any, tmp_path: Path) -> None:
    run.couple_two()
    is_over = tmp_path / "over"
    receiver = f"""\
        import xmml_native
        with xmml_native.Instance() as me:
            me.reuse()
            into = me.in_("in")
            try:
                into.receive(timeout=0.01)
            except xmml_native.{ReceiveTimeoutError.__name__} as error:
                assert "b.in" in str(error), error
                {says(is_over)}
            assert into.receive().data == 5
            assert into.methods()[0]["messages"] == 1
    """
    sender = f"""\
        import xmml_native
        with xmml_native.Instance() as me:
            me.reuse()
            {awaits(is_over)}
            me.out("out").send(5)
    """
    run.run_two(sender, receiver)


def test_a_bound_port_has_a_callback() -> None:
    me = cell(inputs={"in": [3]})
    seen: list[Any] = []
    me.in_("in").on_message(lambda message: seen.append(message.data))
    assert me.reuse()
    assert me.serve()
    assert seen == [3]


def test_a_bound_port_is_skipped() -> None:
    me = Instance.alone(name="cell", ports=PORTS, inputs={"in": [1]})
    assert me.reuse()
    next(iter(me.steps()))
    with pytest.raises(OrderError, match=r"receive on .*called at .*test_ports\.py:\d+"):
        me.in_("in").receive()
    me.out("out").skip()
    assert me.in_("in").receive().data == 1


def test_an_array_on_loan_is_handed_over_by_a_bound_port() -> None:
    me = cell()
    array = me.empty((2, 3))
    array[:] = 7
    me.out("out").send(array)
    assert not array.flags.writeable
    np.testing.assert_array_equal(me.outputs["out"][0].data, np.full((2, 3), 7.0))


def test_a_bound_port_that_is_not_open_makes_no_handles() -> None:
    me = cell()
    with pytest.raises(Error, match="run:open"):
        me.in_("in").handle(holders=2, methods=["tcp"])
    with pytest.raises(Error, match="run:open"):
        me.out("out").open(b"handle")
    with pytest.raises(Error, match="run:open"):
        me.out("out").close()


def test_a_bound_port_asks_the_instance_for_its_block() -> None:
    with pytest.raises(Error, match=r"cell\.out"):
        cell().out("out").block()


def test_a_bound_port_of_an_instance_that_has_left_is_the_usual_error() -> None:
    with cell() as me:
        out, into = me.out("out"), me.in_("in")
    for call in (out.send, into.receive, out.skip, lambda: into.has_message(), lambda: next(into.messages())):
        with pytest.raises(Error, match="cell has left the run"):
            call()


def test_a_bound_port_keeps_its_instance() -> None:
    out = cell().out("out")
    gc.collect()
    assert out.send(1)


def test_an_instance_that_keeps_its_bound_port_can_be_collected() -> None:
    class Cell(Instance):
        port: OutPort

    me = Cell.alone(ports=PORTS)
    me.port = me.out("out")
    alive = weakref.ref(me)
    me.leave()
    del me
    gc.collect()
    assert alive() is None


def test_a_bound_port_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(cell().out("out"))


def calls_of(kind: type[Instance | OutPort | InPort]) -> dict[str, list[inspect.Parameter]]:
    """The calls of a class with their arguments but itself, by their names."""
    calls = {}
    for name in dir(kind):
        if not name.startswith("_") and callable(getattr(kind, name)) and name not in ("empty", "param"):
            _, *arguments = inspect.signature(getattr(kind, name)).parameters.values()
            calls[name] = [argument.replace(annotation=inspect.Parameter.empty) for argument in arguments]
    return calls


BY_NAME = {
    name: arguments[1:]
    for name, arguments in calls_of(Instance).items()
    if [each.name for each in arguments[:1]] == ["port"]
}


@pytest.mark.parametrize("kind", [OutPort, InPort])
def test_every_call_of_a_bound_port_has_the_arguments_of_that_by_name(kind: type[OutPort | InPort]) -> None:
    calls = calls_of(kind)
    assert len(calls) > 8
    assert calls == {name: BY_NAME[name] for name in calls}


def test_every_call_that_takes_a_port_is_one_of_a_bound_port() -> None:
    assert set(BY_NAME) - {"out", "in_"} == set(calls_of(OutPort)) | set(calls_of(InPort))
