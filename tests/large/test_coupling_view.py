"""Pictures of large models cost processor time in proportion to their size."""

from __future__ import annotations

import small_models
from bounds import bounded_time

from xmml.graphs.coupling_view import coupling_view


def test_a_thousand_instances_with_fifty_thousand_couplings_are_drawn_in_linear_time() -> None:
    parts = [f"c{number} 1" for number in range(1000)]
    ways = [f"c{number % 1000}.Of.p{number} -> c{(number * 7 + 1) % 1000}.finit.q{number}" for number in range(50_000)]
    model = small_models.model("\n".join(parts + ways))
    with bounded_time():
        coupling_view(model)
