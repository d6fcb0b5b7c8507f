"""The nodes of a job as sites."""

from __future__ import annotations

import pytest
from xmml_planner.sites import SiteCatalogue, sites_from_text
from xmml_planner.sites.allocation import AllocatedNode, Allocation, allocation_catalogue, with_allocation

GIB = 2**30
NODES = (AllocatedNode("n1", 4, 8 * GIB, 1), AllocatedNode("n2", 4, 8 * GIB, 1))
ALLOCATION = Allocation("slurm", "12", NODES, "n1", cluster="alpha", partition="batch", submit_host="login1.alpha.org")


def test_nodes_that_are_alike_are_one_site() -> None:
    (site,) = allocation_catalogue(ALLOCATION).sites.values()
    assert (site.name, site.nodes, site.cores, site.memory_bytes, site.gpus) == ("alpha", 2, 4, 8 * GIB, 1)
    assert (site.is_here, site.has_queue, site.submits_jobs) == (True, True, False)
    assert site.allocation is not None
    assert (site.allocation.job, site.allocation.hosts) == ("12", ("n1", "n2"))


def test_the_node_on_which_the_run_is_launched_comes_first() -> None:
    (site,) = allocation_catalogue(Allocation("slurm", "12", NODES, "n2")).sites.values()
    assert site.allocation is not None
    assert (site.allocation.hosts, site.allocation.has_launcher) == (("n2", "n1"), True)


def test_a_run_that_is_launched_on_none_of_the_nodes_has_no_launcher_there() -> None:
    (site,) = allocation_catalogue(Allocation("slurm", "12", NODES)).sites.values()
    assert site.allocation is not None
    assert not site.allocation.has_launcher


def test_nodes_that_differ_are_parts_of_one_cluster() -> None:
    small = AllocatedNode("n3", 2, 8 * GIB)
    sites = allocation_catalogue(Allocation("slurm", "12", (*NODES, small), "n1", cluster="alpha")).sites
    assert {name: (site.nodes, site.cores, site.like) for name, site in sites.items()} == {
        "alpha": (2, 4, None),
        "alpha-2": (1, 2, "alpha"),
    }
    assert {site.listen for site in sites.values()} == {"node"}


@pytest.mark.parametrize(
    ("table", "is_it"),
    [
        ('[site.here]\nscheduler = "slurm"\ncores = 2\n', True),
        ('[site.alpha]\nssh = "me@somewhere"\nscheduler = "slurm"\ncores = 2\n', True),
        ('[site.a]\nssh = "me@login1.alpha.org:22"\nscheduler = "slurm"\ncores = 2\n', True),
        ('[site.a]\nssh = "login1"\nscheduler = "slurm"\ncores = 2\n', True),
        ('[site.a]\nssh = "login2"\nscheduler = "slurm"\ncores = 2\n', False),
        ('[site.alpha]\nssh = "alpha"\nscheduler = "pbs"\ncores = 2\n', False),
        ('[site.alpha]\nssh = "alpha"\nscheduler = "slurm"\npartition = "gpu"\ncores = 2\n', False),
        ("[site.here]\ncores = 2\n", False),
    ],
)
def test_the_site_of_a_job_is_known_by_its_cluster_its_login_node_and_its_partition(table: str, is_it: bool) -> None:
    catalogue, name = with_allocation(sites_from_text(table), ALLOCATION)
    assert (name is not None) is is_it
    assert any(site.allocation is not None for site in catalogue.sites.values()) is is_it


CLUSTER = """
[site.alpha]
ssh = "alpha"
scheduler = "slurm"
cores = 2
modules = ["gcc"]
[site.batch]
like = "alpha"
partition = "batch"
[site.gpu]
like = "alpha"
partition = "gpu"
[site.laptop]
cores = 1
[[link]]
between = ["alpha", "laptop"]
latency = "7 ms"
"""


def allocated(text: str) -> tuple[SiteCatalogue, str | None]:
    return with_allocation(sites_from_text(text), ALLOCATION)


def test_of_the_parts_of_a_cluster_the_one_with_the_partition_of_the_job_is_used() -> None:
    catalogue, name = allocated(CLUSTER)
    assert name == "batch"
    site = catalogue["batch"]
    assert (site.ssh, site.like, site.nodes, site.cores, site.modules) == (None, None, 2, 4, ("gcc",))
    assert catalogue["gpu"].like == "alpha"
    assert catalogue["gpu"].submits_jobs


def test_the_allocation_keeps_the_links_that_it_had_as_a_part_of_its_cluster() -> None:
    catalogue, _ = allocated(CLUSTER)
    assert catalogue.link("batch", "gpu").latency_s == pytest.approx(0.0001)
    assert catalogue.link("batch", "laptop").latency_s == pytest.approx(0.007)


def test_other_parts_of_a_cluster_remain_one_when_the_first_of_them_is_allocated() -> None:
    catalogue, name = allocated(CLUSTER.replace('partition = "batch"', 'partition = "long"'))
    assert name == "alpha"
    assert (catalogue["alpha"].like, catalogue["batch"].like, catalogue["gpu"].like) == (None, None, "batch")
    assert catalogue["gpu"].ssh == "alpha"
