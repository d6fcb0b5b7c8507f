"""Arrays that are handed over when they are sent, and what a receiver may do with what it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xmml_native import Instance
from xmml_native.errors import Error


def alone() -> Instance:
    me = Instance.alone(ports={"out": "Oi"}, steps=9)
    assert me.reuse()
    return me


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_on_loan_has_the_shape_type_and_order_asked_for(order: Any) -> None:
    array = alone().empty((3, 4), "int32", order)
    assert (array.shape, array.dtype, array.flags.writeable) == ((3, 4), np.int32, True)
    assert array.flags.c_contiguous == (order == "C")


def test_one_that_was_sent_is_read_only_and_cannot_be_sent_again() -> None:
    me = alone()
    array = me.empty(5)
    array[:] = 7
    me.send("out", array)
    assert not array.flags.writeable
    with pytest.raises(Error, match="handed over with an earlier send"):
        me.send("out", array)
    assert me.outputs["out"][0].data.tolist() == [7.0] * 5


def test_a_type_that_no_message_carries_is_refused() -> None:
    with pytest.raises(Error, match="arrays of float16 cannot be sent"):
        alone().empty(3, np.float16)


@pytest.mark.parametrize("shape", [(2, -3), "many", 1.5])
def test_a_shape_that_is_none_is_refused(shape: Any) -> None:
    with pytest.raises(Error, match="the shape of an array is a whole number from 0"):
        alone().empty(shape)


def test_an_array_larger_than_any_memory_is_refused() -> None:
    with pytest.raises(Error, match="larger than any memory"):
        alone().empty((1 << 40, 1 << 40))


LENDER = """
from xmml_native import Instance
with Instance() as me:
    for value in range(20):
        array = me.empty((300, 300))
        array[:] = value
        me.send("out", array)
"""

BORROWER = """
from xmml_native import Instance
kept = []
with Instance() as me:
    for value in range(20):
        array = me.receive("in").data
        assert (array == value).all()
        array += 1  # it is the only receiver
        kept.append(array)
    assert all((array == value + 1).all() for value, array in enumerate(kept))
"""


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
def test_the_only_receiver_may_keep_and_change_what_it_gets(run: Any, method: str) -> None:
    run.couple_two(methods=[method])
    run.run_two(LENDER, BORROWER)
