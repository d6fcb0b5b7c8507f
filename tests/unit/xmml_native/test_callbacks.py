"""Callbacks on arrival, from Python."""

from __future__ import annotations

from typing import Any

import pytest
from xmml_native import Instance
from xmml_native.errors import Error, OrderError

SENDER = """
from xmml_native import Instance
with Instance() as me:
    for value in range(200):
        me.send("two", value)
    me.send("one", "over")
"""
RECEIVER = """
from xmml_native import Instance
got = []
with Instance() as me:
    me.on_message("two", lambda message: got.append(message.data))
    assert me.receive("one").data == "over"
    while me.serve():
        pass
    assert got == list(range(200)), got
"""
RAISING = """
from xmml_native import Instance
def drown(message):
    raise ValueError("too deep")
with Instance() as me:
    me.on_message("two", drown)
    try:
        me.receive("one")
    except ValueError as error:
        assert error.__notes__ == ["in the callback of b.two"], error.__notes__
        raise
"""


ONE_AND_TWO = (("one", "one"), ("two", "two"))


def test_messages_reach_their_callback_while_the_program_waits_for_others(run: Any) -> None:
    run.couple_two(*ONE_AND_TWO)
    run.run_two(SENDER, RECEIVER)


def test_an_exception_in_a_callback_comes_out_of_the_call_that_waited_and_fails_the_instance(run: Any) -> None:
    run.couple_two(*ONE_AND_TWO)
    run.start("a", SENDER)
    run.start("b", RAISING)
    done = run.finish()
    assert done["b"].returncode == 1
    assert "ValueError: too deep" in done["b"].stderr
    assert run.wait_for("failed", "b")["text"] == "b.two: the callback for its messages failed: ValueError: too deep"


def test_a_callback_comes_in_its_place_of_the_loop() -> None:
    me = Instance.alone(ports={"in": "S", "out": "Oi"}, inputs={"in": [1, 2]}, steps=2)
    got: list[Any] = []
    me.on_message("in", lambda message: got.append((me.time, message.data)))
    assert me.reuse()
    for _ in me.steps():
        with pytest.raises(OrderError, match='send on "out"'):
            me.serve()
        me.send("out", 0)
        assert me.serve()
    assert got == [(0.0, 1), (1.0, 2)]
    assert not me.serve()


def test_to_serve_without_a_callback_or_with_one_on_a_port_without_conduits_is_an_error() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": [1]}, check_order=False)
    with pytest.raises(Error, match="has no callback"):
        me.serve()
    me.on_message("in", print)
    me.on_message("in", None)
    with pytest.raises(Error, match="has no callback"):
        me.serve()
    with pytest.raises(Error, match="has no inputs"):
        Instance.alone(ports={"in": "S"}).on_message("in", print)
