"""Large models have a placement soon, whatever they look like."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bounds import bounded_time
from small_models import model
from wan.soak import long_form
from xmml_planner.placement import refusal
from xmml_planner.placement.demands import demands
from xmml_planner.placement.prediction import Predictor
from xmml_planner.placement.search import EFFORT, NoPlacement, Placement, Search
from xmml_planner.sites.catalogue import Link, RelaySite, Site, SiteCatalogue
from xmml_planner.sites.ways import Ways

from xmml.analysis.capacity import capacities
from xmml.analysis.network import network
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import static_analysis


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """Whatever is asked, the answer takes no hours."""
    with bounded_time():
        yield


def placed(text: str, cores: int, number: int = 10) -> Placement:
    """The placement of a model on sites with so many cores each, some faster and some with longer queues."""
    predictor, sites = at_sites(text, cores, number)
    return Search(predictor, sites, None, EFFORT).placement()


def at_sites(text: str, cores: int, number: int = 10) -> tuple[Predictor, list[str]]:
    net = network(model(text))
    sites = {
        f"s{place}": Site(
            f"s{place}",
            ssh=f"s{place}",
            scheduler="slurm",
            nodes=-(-cores // 16),
            cores=16,
            speed=(0.8, 1.0, 1.2, 1.5)[place % 4],
            queue_wait_s=(0, 10, 20)[place % 3],
            relay=RelaySite(listen="x:1"),
        )
        for place in range(number)
    }
    links = tuple(Link((one, other), 0.01, 125e6) for one in sites for other in sites if one < other)
    room = capacities(net).chosen
    alone = simulate(net, room)
    wanted = demands(net, static_analysis(net), {}, alone.begin_ns, alone.busy_ns)
    return Predictor(net, wanted, Ways(SiteCatalogue(sites, links)), room, alone.final.sent), list(sites)


def copies(number: int) -> str:
    """A macro model that calls copies of a micro model, all alike."""
    return f"""macro 100 runtime=100 cores=8
        m mapper class=scatter
        g mapper class=gather
        micro 10 x{number} runtime=10
        macro.Oi -> m.in size=8000
        m.out -> micro.finit size=8000
        micro.Of -> g.in size=8000
        g.out -> macro.S size=8000"""


def test_a_thousand_copies_are_spread_over_ten_sites_as_well_as_possible() -> None:
    found = placed(copies(1_000), cores=400)
    assert found.is_best
    assert len(set(found.sites)) >= 3


def test_ten_thousand_copies_are_spread_over_a_hundred_sites_as_well_as_possible() -> None:
    found = placed(copies(9_997), cores=400, number=100)
    assert found.is_best
    assert len(set(found.sites)) >= 25


def pairs(number: int, message: str = "") -> str:
    """Pairs of a macro model and the micro model that it calls, hardly two of them alike."""
    lines = []
    for each in range(number):
        lines += [
            f"a{each} 100 runtime={50 + each % 100} cores={1 + each % 4}",
            f"b{each} 10 runtime={1 + each % 3} cores={1 + each % 3}",
            f"a{each}.Oi -> b{each}.finit {message}",
            f"b{each}.Of -> a{each}.S {message}",
        ]
    return "\n".join(lines)


def test_five_hundred_pairs_that_would_fill_sites_to_the_last_core_are_spread_as_well_as_possible() -> None:
    assert placed(pairs(500), cores=400).is_best


def test_ten_thousand_instances_that_differ_are_spread_over_a_hundred_sites_as_well_as_possible() -> None:
    assert placed(pairs(5_000, "size=80000"), cores=400, number=100).is_best


def test_a_macro_model_and_two_thousand_different_micro_models_are_spread_over_a_hundred_sites() -> None:
    lines = ["macro 100 runtime=10"]
    for each in range(2_000):
        lines += [
            f"c{each} 1 runtime={0.1 + each % 7} cores={1 + each % 4}",
            f"macro.Oi.o{each} -> c{each}.finit size=8000",
            f"c{each}.Of -> macro.S.i{each} size=8000",
        ]
    found = placed("\n".join(lines), cores=100, number=100)
    assert found.at_least_ns <= found.prediction.makespan_ns < 1.4 * found.at_least_ns


@long_form("takes half a minute")
def test_five_hundred_pairs_are_spread_over_ten_sites_as_well_as_possible() -> None:
    assert placed(pairs(500, "size=80000"), cores=400).is_best


def test_of_sites_that_are_too_small_for_very_much_it_is_told_how_small_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    predictor, sites = at_sites(pairs(500), cores=80)
    monkeypatch.setattr(refusal, "_EFFORT", 0.1)
    with pytest.raises(NoPlacement) as none:
        Search(predictor, sites, None, EFFORT).placement()
    why = refusal.why(predictor, sites, None, none.value.because)
    assert why.startswith(
        "the sites are too small: what runs at the same time needs 1416 cores, all sites together have"
    )


def test_no_reason_is_given_that_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, sites = at_sites(pairs(500), cores=400)
    monkeypatch.setattr(refusal, "_EFFORT", 0.0)
    assert refusal.why(predictor, sites, None, frozenset()).endswith("there may be one")


@long_form("takes half a minute")
def test_a_chain_of_a_thousand_uses_the_same_cores_one_after_the_other() -> None:
    lines = [f"c{number} 1 runtime={50 + number % 100} cores={1 + number % 4}" for number in range(1000)]
    lines += [f"c{number}.Of -> c{number + 1}.finit size=1000000" for number in range(999)]
    assert len(set(placed("\n".join(lines), cores=32).sites)) == 1
