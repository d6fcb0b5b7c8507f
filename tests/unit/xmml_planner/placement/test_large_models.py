"""Large models have a placement soon, whatever they look like. Effort is deterministic, so nothing here is timed."""

from __future__ import annotations

import os

import pytest
from small_models import model
from xmml_planner.placement.demands import demands
from xmml_planner.placement.prediction import Predictor
from xmml_planner.placement.search import EFFORT, Placement, Search
from xmml_planner.sites.catalogue import Link, RelaySite, Site, SiteCatalogue
from xmml_planner.sites.ways import Ways

from xmml.analysis.capacity import capacities
from xmml.analysis.network import network
from xmml.analysis.self_timed import simulate
from xmml.analysis.static import static_analysis

SOAK = os.environ.get("XMML_SOAK") == "1"


def placed(text: str, cores: int) -> Placement:
    """The placement of a model on ten sites with so many cores each, some faster and some with longer queues."""
    net = network(model(text))
    sites = {
        f"s{number}": Site(
            f"s{number}",
            ssh=f"s{number}",
            scheduler="slurm",
            nodes=-(-cores // 16),
            cores=16,
            speed=(0.8, 1.0, 1.2, 1.5)[number % 4],
            queue_wait_s=(0, 10, 20)[number % 3],
            relay=RelaySite(listen="x:1"),
        )
        for number in range(10)
    }
    links = tuple(Link((one, other), 0.01, 125e6) for one in sites for other in sites if one < other)
    alone = simulate(net, capacities(net).chosen)
    wanted = demands(net, static_analysis(net), {}, alone.begin_ns)
    predictor = Predictor(net, wanted, Ways(SiteCatalogue(sites, links)), capacities(net).chosen, alone.final.sent)
    return Search(predictor, list(sites), None, EFFORT).placement()


def test_a_thousand_copies_are_spread_over_ten_sites_as_well_as_possible() -> None:
    found = placed(
        """macro 100 runtime=100 cores=8
        m mapper class=scatter
        g mapper class=gather
        micro 10 x1000 runtime=10
        macro.Oi -> m.in size=8000
        m.out -> micro.finit size=8000
        micro.Of -> g.in size=8000
        g.out -> macro.S size=8000""",
        cores=400,
    )
    assert found.is_best
    assert len(set(found.sites)) >= 3


@pytest.mark.skipif(not SOAK, reason="takes half a minute; set XMML_SOAK=1")
def test_five_hundred_pairs_are_spread_over_ten_sites_as_well_as_possible() -> None:
    lines = []
    for number in range(500):
        lines += [
            f"a{number} 100 runtime={50 + number % 100} cores={1 + number % 4}",
            f"b{number} 10 runtime={1 + number % 3} cores={1 + number % 3}",
            f"a{number}.Oi -> b{number}.finit size=80000",
            f"b{number}.Of -> a{number}.S size=80000",
        ]
    assert placed("\n".join(lines), cores=400).is_best


@pytest.mark.skipif(not SOAK, reason="takes half a minute; set XMML_SOAK=1")
def test_a_chain_of_a_thousand_uses_the_same_cores_one_after_the_other() -> None:
    lines = [f"c{number} 1 runtime={50 + number % 100} cores={1 + number % 4}" for number in range(1000)]
    lines += [f"c{number}.Of -> c{number + 1}.finit size=1000000" for number in range(999)]
    assert len(set(placed("\n".join(lines), cores=32).sites)) == 1
