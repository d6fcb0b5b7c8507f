"""A site's queue is asked which of its limits a job exceeds: those of partitions, and of accounts where there are any.

The commands of Slurm are stand-ins that answer in its words; the shell text that calls them is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_answers import with_accounting, without_accounting
from xmml_executors.launch.jobs.job_nodes import JobNodes
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.open_folder import OpenFolder
from xmml_planner import Job
from xmml_planner.sites import Site
from xmml_sites.ssh.local import LocalTransport

ALPHA = Site("alpha", scheduler="slurm", nodes=4, cores=4, account="abc", origin={"nodes": "sites.toml:7"})


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs of Slurm; without accounting."""
    return without_accounting(tmp_path / "bin", monkeypatch)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[RunSite]:
    journal = Journal(OpenFolder(tmp_path))
    yield RunSite(ALPHA, "r-1", journal, SiteLogin(ALPHA, LocalTransport("alpha")))
    journal.close()


def job(nodes: int = 4) -> SiteJob:
    planned = Job("alpha", "alpha", (), nodes=nodes, cores_per_node=4)
    return SiteJob("alpha", "alpha", ALPHA, planned, 3600.0, JobNodes(planned, ALPHA, ()), attempt=1, id="7")


def asked(site: RunSite, reason: str, nodes: int = 4) -> str:
    return asyncio.run(site.beyond_limits([job(nodes)], reason))


def test_a_limit_that_others_use_up_too_is_exceeded_by_one_job_alone(site: RunSite, answers: Path) -> None:
    with_accounting(answers)
    told = "the job asks for 16 cores, the account abc allows 8 cores: set nodes = 2"
    assert asked(site, "AssocGrpCpuLimit") == told


def test_a_job_within_its_limits_only_waits(site: RunSite, answers: Path) -> None:
    with_accounting(answers)
    assert asked(site, "AssocGrpCpuLimit", nodes=2) == ""


def test_a_cluster_without_accounting_tells_the_limits_of_its_partitions(site: RunSite, answers: Path) -> None:
    assert asked(site, "AssocGrpCpuLimit") == ""
    assert "the partition batch allows 4 nodes: set nodes = 4" in asked(site, "PartitionNodeLimit", nodes=5)


def test_nodes_that_do_not_work_are_told(site: RunSite, answers: Path) -> None:
    told = asyncio.run(site.broken_nodes(job()))
    assert told.startswith(
        "the job asks for 4 nodes (nodes in sites.toml:7), and only 1 node works in the partition batch"
    )
