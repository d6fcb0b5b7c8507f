"""The built-in mappers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xmml_native import DataTypeError, Error, Instance, Message, mappers


def mapped(name: str, inputs: dict[str, Any], outs: list[str], copies: dict[str, int] | None = None) -> dict[str, Any]:
    """What each out port sends when the mapper has received ``inputs``."""
    ports = dict.fromkeys((key.partition("[")[0] for key in inputs), "in") | dict.fromkeys(outs, "out")
    me = Instance.alone(ports=ports, inputs={key: [value] for key, value in inputs.items()}, copies=copies)
    mappers.run(me, name)
    return {port: messages for port, messages in me.outputs.items() if messages}


def test_duplicate_sends_the_same_message_to_each_out_port() -> None:
    outputs = mapped("duplicate", {"in": Message("x", 3.0, 4.0)}, ["a", "b"])
    assert [(p, m.data, m.timestamp, m.next_timestamp) for p, (m,) in outputs.items()] == [
        ("a", "x", 3.0, 4.0),
        ("b", "x", 3.0, 4.0),
    ]


def test_gather_stacks_numbers() -> None:
    outputs = mapped("gather", {"a": 1.0, "b": 2.0}, ["out"])
    assert outputs["out"][0].data.tolist() == [1.0, 2.0]


def test_gather_stacks_the_arrays_of_copies_along_a_new_axis() -> None:
    outputs = mapped("gather", {f"in[{i}]": np.full(2, i) for i in range(3)}, ["out"], {"in": 3})
    assert outputs["out"][0].data.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_gather_keeps_the_latest_time_stamp() -> None:
    outputs = mapped("gather", {"a": Message("x", 1.0, 2.0), "b": Message("y", 3.0, 5.0)}, ["out"])
    message = outputs["out"][0]
    assert (message.data, message.timestamp, message.next_timestamp) == (["x", "y"], 3.0, 5.0)


def test_gather_names_the_shapes_that_differ() -> None:
    with pytest.raises(DataTypeError, match=r"float64 of shape \(2,\) and float64 of shape \(3,\)"):
        mappers.stack([np.zeros(2), np.zeros(3)])


def test_concatenate_joins_arrays_along_the_first_axis() -> None:
    outputs = mapped("concatenate", {"a": np.ones((1, 2)), "b": np.zeros((2, 2))}, ["out"])
    assert outputs["out"][0].data.tolist() == [[1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize(("values", "joined"), [(["a", "b"], "ab"), ([b"a", b"b"], b"ab"), ([[1], [2, 3]], [1, 2, 3])])
def test_concatenate_joins_text_bytes_and_lists(values: list[Any], joined: Any) -> None:
    assert mappers.join(values) == joined


def test_concatenate_refuses_numbers() -> None:
    with pytest.raises(DataTypeError, match="gather stacks numbers"):
        mappers.join([1.0, 2.0])


def test_scatter_cuts_an_array_as_evenly_as_possible() -> None:
    outputs = mapped("scatter", {"in": np.arange(8)}, ["out"], {"out": 3})
    parts = [outputs[f"out[{i}]"][0].data.tolist() for i in range(3)]
    assert parts == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_scatter_serves_out_ports_in_the_order_of_the_model() -> None:
    outputs = mapped("scatter", {"in": [1, 2, 3]}, ["left", "right"])
    assert [outputs[port][0].data for port in ("left", "right")] == [[1, 2], [3]]


def test_concatenate_undoes_scatter() -> None:
    whole = np.arange(22.0).reshape(11, 2)
    assert (mappers.join(mappers.split(whole, 4)) == whole).all()


def test_an_unknown_mapper_is_refused_with_the_list() -> None:
    with pytest.raises(Error, match="duplicate, gather, scatter, concatenate"):
        mapped("fold", {"in": 1}, ["out"])
