"""Where filters run."""

from __future__ import annotations

import pytest
from xmml_planner.filter_placement import cut


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
