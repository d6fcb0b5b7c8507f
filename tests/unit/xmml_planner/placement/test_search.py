"""The fastest placement, held against trying all of them."""

from __future__ import annotations

import pytest
from brute_force_placement import all_placements, random_case
from wan.soak import LONG
from xmml_planner.placement import search
from xmml_planner.placement.search import ROUNDING, NoPlacement, Search

#: Behind the first ones: copies of which some have more to do than others; a source that sends more than anybody takes.
SEEDS = range(4_000) if LONG else (*range(160), 2_311, 2_397, 3_379, 2_409)


@pytest.mark.parametrize("part", range(4))
def test_no_other_placement_is_faster(part: int) -> None:
    compared = refused = 0
    for seed in SEEDS[part::4]:
        case = random_case(seed)
        if case is None:
            continue
        compared += 1
        times = [case.predictor.predict(sites).makespan_ns for sites in all_placements(case)]
        if not times:
            refused += 1
            with pytest.raises(NoPlacement):
                Search(case.predictor, case.sites, None, 10.0).placement()
            continue
        found = Search(case.predictor, case.sites, None, 10.0).placement()
        assert found.prediction.makespan_ns <= min(times) * (1 + 2 * ROUNDING) + 2, case.words
        assert found.at_least_ns <= min(times) * (1 + 2 * ROUNDING) + 2, case.words
        assert found.is_best, case.words
    assert compared > 5


@pytest.mark.parametrize("choices", [0, 8])
def test_a_search_in_parts_finds_a_placement_that_satisfies_everything_and_bounds_all_others(
    choices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_CHOICES", choices)
    monkeypatch.setattr(search, "_CHOICES_OF_A_PART", choices)
    compared = fastest = 0
    for seed in SEEDS[: 4_000 if LONG else 80]:
        case = random_case(seed)
        if case is None:
            continue
        times = {sites: case.predictor.predict(sites).makespan_ns for sites in all_placements(case)}
        if not times:
            with pytest.raises(NoPlacement):
                Search(case.predictor, case.sites, None, 10.0).placement()
            continue
        found = Search(case.predictor, case.sites, None, 10.0).placement()
        least = min(times.values())
        assert found.prediction.makespan_ns == times[found.sites], case.words
        assert found.at_least_ns <= least * (1 + 2 * ROUNDING) + 2, case.words
        compared += 1
        fastest += found.prediction.makespan_ns <= least * (1 + 2 * ROUNDING) + 2
    assert compared > 10
    assert fastest >= 0.9 * compared
