"""Where filters run."""

from __future__ import annotations

import pytest
from xmml_planner import FilterSpec
from xmml_planner.filter_placement import cut, wire_of


@pytest.mark.parametrize(
    ("ratios", "at_sender"),
    [
        ([], 0),
        ([1.0], 0),
        ([0.5], 1),
        ([2.0], 0),
        ([1.0, 0.25, 4.0, 1.0], 2),
        ([4.0, 0.125], 2),
        ([4.0, 0.25], 0),
        ([0.5, 1.0, 0.5], 3),
    ],
)
def test_a_chain_is_cut_where_least_crosses_the_wire(ratios: list[float], at_sender: int) -> None:
    assert cut(ratios) == at_sender


def test_filters_of_the_wire_work_in_a_fixed_order_and_are_undone_in_the_opposite_one() -> None:
    checksum, precision = FilterSpec("checksum", params={"kind": "crc32c"}), FilterSpec("precision", 1e-3)
    wire = wire_of([checksum, FilterSpec("sum", 2), FilterSpec("zstd", 9), precision])
    assert wire.sender == (precision, FilterSpec("zstd", 9), checksum)
    assert wire.receiver == (checksum, FilterSpec("unzstd"), FilterSpec("restore"))


def test_a_compression_that_is_applied_wins_over_that_of_the_coupling() -> None:
    assert wire_of([], "zstd:5").sender == (FilterSpec("zstd", 5.0),)
    assert wire_of([FilterSpec("lz4")], "zstd:5").sender == (FilterSpec("lz4"),)
    assert wire_of([], "lz4").receiver == (FilterSpec("unlz4"),)


def test_without_filters_of_the_wire_nothing_is_placed() -> None:
    assert wire_of([FilterSpec("sum", 2)]) == wire_of([])
