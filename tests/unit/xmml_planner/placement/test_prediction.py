"""What is predicted of placements, whoever searches them."""

from __future__ import annotations

from brute_force_placement import all_placements, random_case


def test_no_placement_takes_longer_than_the_longest_time() -> None:
    compared = 0
    for seed in range(160):
        case = random_case(seed)
        if case is not None:
            longest_ns = case.predictor.longest_ns(case.sites)
            times = [case.predictor.predict(sites).makespan_ns for sites in all_placements(case)]
            assert all(time <= longest_ns for time in times), case.words
            compared += len(times)
    assert compared > 100
