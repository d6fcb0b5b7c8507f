"""The parts of a search that is too large for one problem."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from brute_force_placement import Case, all_placements, random_case
from xmml_planner.placement.limits import possible_sites
from xmml_planner.placement.neighbourhood import Choices, around_latest, cheaper_or_nearer, near


def cases() -> list[tuple[Case, Choices, tuple[str, ...]]]:
    """Cases with their possible sites and one of their placements."""
    found = []
    for seed in range(60):
        case = random_case(seed)
        sites = next(all_placements(case), None) if case is not None else None
        if case is not None and sites is not None:
            known = [case.predictor.ways.catalogue[name] for name in case.sites]
            found.append((case, possible_sites(case.predictor.demands.units, known), sites))
    return found


def choices_of(kind: str, case: Case, possible: Choices, sites: tuple[str, ...], most: int) -> Choices:
    wanted = case.predictor.demands
    if kind == "near":
        return near(wanted, possible, sites, most)
    if kind == "latest":
        return around_latest(wanted, possible, case.predictor.predict(sites), most, 0)
    channels = case.predictor.network.channels
    coupled = [(wanted.unit_of[channel.sender], wanted.unit_of[channel.receiver]) for channel in channels]
    return cheaper_or_nearer(wanted, possible, sites, coupled, dict.fromkeys(case.sites, 0.0), most)


@pytest.mark.parametrize("most", [0, 4])
@pytest.mark.parametrize("kind", ["near", "latest", "tidier"])
def test_the_placement_that_is_known_stays_possible(kind: str, most: int) -> None:
    for case, possible, sites in cases():
        chosen = choices_of(kind, case, possible, sites, most)
        wanted = case.predictor.demands
        assert all(site in chosen[wanted.unit_of[process]] for process, site in enumerate(sites)), case.words
        assert all(set(own) <= set(all_) for own, all_ in zip(chosen, possible, strict=True)), case.words


@pytest.mark.parametrize("kind", ["near", "latest", "tidier"])
def test_everything_stays_where_it_is_if_there_is_nothing_to_choose(kind: str) -> None:
    for case, possible, sites in cases():
        homes = [{sites[process] for process in unit.processes} for unit in case.predictor.demands.units]
        assert [set(own) for own in choices_of(kind, case, possible, sites, 0)] == homes, case.words


def test_the_unit_that_ends_last_has_all_its_sites() -> None:
    for case, possible, sites in cases():
        chosen = choices_of("latest", case, possible, sites, 2)
        ends = case.predictor.predict(sites).ends_ns
        last = case.predictor.demands.unit_of[_last(ends)]
        assert list(chosen[last]) == list(possible[last]), case.words


def _last(ends: Sequence[int]) -> int:
    return max(range(len(ends)), key=lambda process: (ends[process], -process))
