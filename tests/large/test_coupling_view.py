"""Pictures of large models cost processor time in proportion to their size."""

from __future__ import annotations

from time import process_time

import small_models

from xmml.graphs.coupling_view import coupling_view


def test_a_thousand_instances_with_fifty_thousand_couplings_are_drawn_in_linear_time() -> None:
    parts = [f"c{number} 1" for number in range(1000)]
    ways = [f"c{number % 1000}.Of.p{number} -> c{(number * 7 + 1) % 1000}.finit.q{number}" for number in range(50_000)]
    model = small_models.model("\n".join(parts + ways))
    start = process_time()
    coupling_view(model)
    assert process_time() - start < 60, "some seconds are usual; what grows with the square takes hours"
