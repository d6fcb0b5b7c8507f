"""Python values to messages and back."""

from __future__ import annotations

import array
import copy
import decimal
import math
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xmml_native import DataTypeError, Instance, Message

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided" and array.ndim:
        doubled = np.repeat(array, 2, axis=-1)
        return doubled[..., ::2]
    if layout == "reversed" and array.ndim:
        return array[::-1]
    if layout == "big-endian":
        return array.astype(array.dtype.newbyteorder(">"))
    return array


#: Arrays of every type, rank 0 to 7, in every memory order, also empty ones.
arrays = st.builds(
    _laid_out,
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=7, min_side=0, max_side=4))
    ),
    st.sampled_from(["C", "F", "strided", "reversed", "big-endian"]),
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
)

nested = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=8,
)


def assert_same(received: Any, sent: Any) -> None:
    """Assert that ``received`` is ``sent``, bit for bit."""
    if isinstance(sent, np.ndarray):
        assert isinstance(received, np.ndarray)
        assert received.dtype == sent.dtype.newbyteorder("=")
        assert received.shape == sent.shape
        assert received.tobytes() == sent.astype(received.dtype).tobytes()
        if sent.flags.c_contiguous or sent.flags.f_contiguous:
            assert received.flags.c_contiguous == sent.flags.c_contiguous
            assert received.flags.f_contiguous == sent.flags.f_contiguous
    elif isinstance(sent, dict):
        assert list(received) == list(sent)
        for key in sent:
            assert_same(received[key], sent[key])
    elif isinstance(sent, (list, tuple)):
        assert isinstance(received, list)
        assert len(received) == len(sent)
        for one, other in zip(received, sent, strict=True):
            assert_same(one, other)
    elif isinstance(sent, complex):
        assert type(received) is complex
        assert_same(received.real, sent.real)
        assert_same(received.imag, sent.imag)
    elif isinstance(sent, float) and math.isnan(sent):
        assert math.isnan(received)
    else:
        assert type(received) is type(sent)
        assert received == sent


def sent(value: Any) -> Any:
    """What a message holds after ``value`` was sent."""
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    me.send("out", value)
    return me.outputs["out"][0].data


def refusal(value: Any) -> str:
    with pytest.raises(DataTypeError) as caught:
        sent(value)
    return str(caught.value)


@given(arrays)
def test_arrays_of_every_type_rank_and_order_arrive_as_they_were_sent(value: np.ndarray) -> None:
    assert_same(sent(value), value)


@given(nested)
def test_nested_data_arrives_as_it_was_sent(value: Any) -> None:
    assert_same(sent(value), value)


def test_an_array_may_be_overwritten_after_it_was_sent() -> None:
    value = np.zeros(1000)
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    me.send("out", value)
    value[:] = 1.0
    assert not me.outputs["out"][0].data.any()


def test_tuples_arrive_as_lists() -> None:
    assert sent((1, (2.0, "x"))) == [1, [2.0, "x"]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float64(2.5), 2.5), (np.complex128(1j), 1j), (np.str_("a"), "a"), (np.bytes_(b"a"), b"a")],
)
def test_numpy_scalars_that_are_python_numbers_or_text_arrive_as_these(value: Any, expected: Any) -> None:
    received = sent(value)
    assert type(received) is type(expected)
    assert received == expected


@pytest.mark.parametrize("value", [np.float32(2.5), np.int64(-3), np.uint8(7), np.bool_(True), np.complex64(1j)])
def test_other_numpy_scalars_arrive_as_arrays_of_rank_0(value: Any) -> None:
    received = sent(value)
    assert received.shape == ()
    assert received.dtype == value.dtype
    assert received[()] == value


def test_bytearrays_arrive_as_bytes() -> None:
    assert sent(bytearray(b"ab")) == b"ab"


def test_any_buffer_arrives_as_an_array() -> None:
    assert_same(sent(array.array("i", [1, 2, 3])), np.array([1, 2, 3], "int32"))
    assert_same(sent(memoryview(b"abcd")[::2]), np.frombuffer(b"ac", "uint8"))


def test_objects_that_show_themselves_as_arrays_arrive_as_arrays() -> None:
    class Field:
        def __array__(self) -> np.ndarray:
            return np.ones(3)

    assert_same(sent(Field()), np.ones(3))


def test_memory_that_another_library_describes_arrives_as_an_array() -> None:
    class Field:
        def __init__(self) -> None:
            self.memory = np.arange(6.0).reshape(2, 3)

        @property
        def __array_interface__(self) -> Any:
            return self.memory.__array_interface__

    assert_same(sent(Field()), np.arange(6.0).reshape(2, 3))


def test_tensors_arrive_by_dlpack() -> None:
    class Tensor:
        memory = np.arange(6, dtype="float32").reshape(2, 3)

        def __dlpack__(self, **options: Any) -> Any:
            return self.memory.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.memory.__dlpack_device__()

    assert_same(sent({"tensor": Tensor()})["tensor"], Tensor.memory)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_integers_beyond_64_bits_are_refused(value: int) -> None:
    assert "more than 64 bits" in refusal(value)


@pytest.mark.parametrize("dtype", ["float16", "datetime64[s]", "U3", "O"])
def test_arrays_of_other_types_are_refused_by_name(dtype: str) -> None:
    assert f"array of {np.dtype(dtype)} and shape (2,)" in refusal(np.zeros(2, dtype))


@pytest.mark.parametrize(
    ("dtype", "advice"),
    [
        ("float16", 'without loss by .astype("float32")'),
        (">f2", 'without loss by .astype("float32")'),
        ("longdouble", 'rounded to double precision by .astype("float64")'),
        ("clongdouble", 'rounded to double precision by .astype("complex128")'),
        ("U3", "send its texts as a list, by .tolist()"),
        ("S3", "send its texts as a list, by .tolist()"),
        ("O", "send a list"),
        ([("x", "f8"), ("n", "i4")], "send its fields as a dict"),
    ],
)
def test_a_refusal_says_how_to_convert(dtype: Any, advice: str) -> None:
    assert advice in refusal(np.zeros(2, dtype))


def test_messages_can_be_copied_and_pickled() -> None:
    message = pickle.loads(pickle.dumps(Message(np.arange(3), 1.5, 2.5)))
    assert (message.data.tolist(), message.timestamp, message.next_timestamp) == ([0, 1, 2], 1.5, 2.5)
    assert copy.copy(Message("x", 1.0)).data == "x"


def test_structured_arrays_are_refused() -> None:
    assert "cannot be sent" in refusal(np.zeros(2, [("x", "f8"), ("n", "i4")]))


def test_a_refusal_says_where_in_nested_data_the_value_stands() -> None:
    assert 'data["sections"][1]["depth"]' in refusal({"sections": [1, {"depth": decimal.Decimal("1.5")}]})


def test_keys_that_are_not_text_are_refused() -> None:
    assert "keys must be text" in refusal({"a": {1: 2}})


def test_data_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "nested more than 64 deep" in refusal(loop)


def test_data_nested_64_deep_is_carried() -> None:
    value: Any = 1
    for _ in range(64):
        value = [value]
    assert sent(value) == value


def test_lone_surrogates_are_refused() -> None:
    assert "surrogates" in refusal("\ud800")


def test_a_received_array_that_nobody_else_holds_may_be_written_to() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": [np.arange(3.0)]}, check_order=False)
    received = me.receive("in").data
    received += 1
    assert received.tolist() == [1.0, 2.0, 3.0]


def test_arrays_in_a_dict_may_be_written_to() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": [{"u": np.zeros(3), "v": np.zeros(3)}]}, check_order=False)
    received = me.receive("in").data
    received["u"] += 1
    assert not received["v"].any()


def test_a_received_array_that_others_hold_is_read_only() -> None:
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    me.send("out", np.zeros(3))
    assert not me.outputs["out"][0].data.flags.writeable


def test_recorded_outputs_share_one_memory() -> None:
    me = Instance.alone(ports={"out": "Oi"}, check_order=False)
    me.send("out", np.zeros(3))
    one, other = (me.outputs["out"][0].data for _ in range(2))
    assert np.shares_memory(one, other)


def test_an_array_outlives_its_message_and_instance() -> None:
    me = Instance.alone(ports={"in": "S"}, inputs={"in": [np.arange(10_000)]}, check_order=False)
    received = me.receive("in").data
    del me
    assert received.sum() == 49_995_000


def test_a_message_that_is_passed_on_keeps_its_time_stamps() -> None:
    me = Instance.alone(ports={"in": "S", "out": "Oi"}, inputs={"in": [Message(7, 2.0, 5.0)]}, check_order=False)
    me.send("out", me.receive("in"))
    passed = me.outputs["out"][0]
    assert (passed.data, passed.timestamp, passed.next_timestamp) == (7, 2.0, 5.0)


def test_importing_and_exchanging_plain_data_does_not_import_numpy() -> None:
    program = """if True:
        import sys
        from xmml_native import Instance
        data = [1, 2.0, "x", b"y", {"z": None}]
        me = Instance.alone(ports={"in": "S", "out": "Oi"}, inputs={"in": [data]}, check_order=False)
        me.send("out", me.receive("in").data)
        sys.exit("numpy" in sys.modules)
    """
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


ECHO = """
from xmml_native import Instance
with Instance() as me:
    while (message := me.receive_or_end("ask")) is not None:
        me.send("answer", message.data)
"""


def test_data_survives_the_way_through_another_process(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.declare("here", {"ask": "Oi", "answer": "S"}, check_order=False)
    run.declare("echo", {"ask": "S", "answer": "Oi"}, check_order=False)
    run.couple("here.ask", "echo.ask")
    run.couple("echo.answer", "here.answer")
    run.define()
    echo = run.start("echo", ECHO)
    for name, value in run.environment("here").items():
        monkeypatch.setenv(name, value)

    with Instance() as me:

        @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.one_of(nested, arrays))
        def round_trip(value: Any) -> None:
            me.send("ask", value)
            assert_same(me.receive("answer").data, value)

        round_trip()
    run.finish()
    assert echo.returncode == 0


def test_an_array_may_change_and_be_resized_while_its_message_is_under_way(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.declare("here", {"field": "S"}, check_order=False)
    run.declare("there", {"field": "Oi"}, check_order=False)
    run.couple("there.field", "here.field")
    run.define()
    sender = """if True:
        import numpy, xmml_native
        with xmml_native.Instance() as me:
            for size in (1 << 10, 1 << 16, 1 << 20):
                field = numpy.zeros(size)
                for i in range(8):
                    field[:] = i
                    me.send("field", field)
                    field[:] = -1
                field.resize(2 * size)
    """
    there = run.start("there", sender)
    for name, value in run.environment("here").items():
        monkeypatch.setenv(name, value)
    with Instance() as me:
        for _ in range(3):
            for i in range(8):
                assert (me.receive("field").data == i).all()
    run.finish()
    assert there.returncode == 0


def test_a_large_array_arrives_without_a_copy(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.declare("here", {"field": "S"}, check_order=False)
    run.declare("there", {"field": "Oi"}, check_order=False)
    run.couple("there.field", "here.field")
    run.define()
    run.start(
        "there", "import numpy, xmml_native\nwith xmml_native.Instance() as me: me.send('field', numpy.ones(1 << 21))\n"
    )
    for name, value in run.environment("here").items():
        monkeypatch.setenv(name, value)
    with Instance() as me:
        message = me.receive("field")
        tracemalloc.start()
        field = message.data
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 100_000  # numpy reports its allocations to tracemalloc; the 16 MiB are not among them
    assert not field.flags.owndata
    assert field.flags.writeable
    assert field.sum() == 1 << 21
