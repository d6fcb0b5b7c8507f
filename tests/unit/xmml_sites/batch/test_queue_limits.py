"""Of a job that asks for more than its queue gives: the value, where it comes from, the limit, and what would do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from xmml_sites.batch import JobScript, Limits, QueueLimits
from xmml_sites.batch.queue_limits import ACCOUNT, PARTITION, QOS

GIB = 2**30
DEBUG = Limits(PARTITION, "debug", longest_s=1800.0, nodes=2, node_cores=4, node_memory_bytes=8 * GIB, working_nodes=1)
NORMAL = Limits(PARTITION, "normal", longest_s=86_400.0, nodes=8, node_cores=8, node_gpus=2, working_nodes=8)
WORKQ = Limits(PARTITION, "workq", "queue", longest_s=3600.0, cores=16, memory_bytes=16 * GIB)
ABC = Limits(ACCOUNT, "abc", cores=6, qos=("normal",))
HIGH = Limits(QOS, "high", longest_s=600.0, gpus=1)
SLURM = QueueLimits((DEBUG, NORMAL), "debug", (ABC, HIGH), "abc", "normal")
PBS = QueueLimits((WORKQ,), "workq")
GIVEN = {key: f"{key} in sites.toml:12" for key in ("walltime", "partition", "account", "qos", "options")}


def job(**facts: Any) -> JobScript:
    return JobScript("a", "/a", "true", **{"walltime_s": 60.0, **facts})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            job(walltime_s=7200.0),
            "the job asks for 2 hr (walltime in sites.toml:12), the partition debug allows 30 min: set walltime = "
            '"30 min" or another partition (normal allows 1 day)',
        ),
        (
            job(nodes=4),
            "the job asks for 4 nodes, the partition debug allows 2 nodes: set nodes = 2 or another partition (normal "
            "allows 8 nodes)",
        ),
        (
            job(cores=8, partition="debug", account="other"),
            "the job asks for 8 cores on a node, the partition debug allows 4 cores on a node: set cores = 4 or "
            "another partition (normal allows 8 cores on a node)",
        ),
        (
            job(memory=16 * GIB),
            "the job asks for 16 GiB on a node, the partition debug allows 8 GiB on a node: set memory = "
            '"8 GiB" or another partition (normal allows any)',
        ),
        (
            job(gpus=4, partition="normal"),
            "the job asks for 4 GPUs on a node, the partition normal allows 2 GPUs on a node: set gpus = 2 or another "
            "partition (debug allows any)",
        ),
        (
            job(nodes=2, cores=4),
            "the job asks for 8 cores, the account abc allows 6 cores: set nodes = 1",
        ),
        (
            job(gpus=2, qos="high"),
            "the job asks for 2 GPUs, the QOS high allows 1 GPU: set gpus = 1",
        ),
    ],
)
def test_what_is_too_much_is_told_with_the_limit_and_what_would_do(asked: JobScript, told: str) -> None:
    assert SLURM.exceeded(asked, GIVEN) == [told]


def test_all_nodes_together_may_have_too_much() -> None:
    assert PBS.exceeded(job(nodes=3, cores=8), GIVEN) == [
        "the job asks for 24 cores, the queue workq allows 16 cores: set nodes = 2"
    ]
    assert PBS.exceeded(job(cores=20), {}) == [
        "the job asks for 20 cores, the queue workq allows 16 cores: set cores = 16"
    ]
    assert PBS.exceeded(job(nodes=4, cores=20), {}) == [
        "the job asks for 80 cores, the queue workq allows 16 cores: set nodes = 1 and cores = 16"
    ]
    assert PBS.exceeded(job(nodes=2, memory=12 * GIB), {}) == [
        "the job asks for 24 GiB, the queue workq allows 16 GiB: set nodes = 1"
    ]


def test_everything_that_is_too_much_is_told() -> None:
    assert len(SLURM.exceeded(job(walltime_s=7200.0, nodes=4, cores=8), GIVEN)) == 4


def test_another_partition_is_named_only_if_it_gives_all_that_is_asked_for() -> None:
    (time, nodes) = SLURM.exceeded(job(walltime_s=7200.0, nodes=9, account="other"), {})
    assert time.endswith(' set walltime = "30 min"')
    assert nodes.endswith(" set nodes = 2")
    closed = replace(SLURM, partitions=(DEBUG, replace(NORMAL, accounts=("def",))))
    assert "another" not in closed.exceeded(job(walltime_s=7200.0), {})[0]


def test_a_reason_of_accounting_is_not_explained_by_a_partition() -> None:
    assert SLURM.exceeded(job(walltime_s=7200.0), GIVEN, "AssocGrpCpuLimit") == []
    assert SLURM.exceeded(job(cores=8, walltime_s=7200.0), GIVEN, "QOSMaxCpuPerUserLimit") == []


@pytest.mark.parametrize(
    ("asked", "reason", "told"),
    [
        (
            job(partition="nosuch"),
            "invalid partition specified: nosuch",
            "there is no partition nosuch (partition in sites.toml:12): set partition to one of debug, normal",
        ),
        (
            job(account="xyz"),
            "InvalidAccount",
            "the account xyz (account in sites.toml:12) is none of yours: set account to one of abc",
        ),
        (
            job(account="abc", qos="high"),
            "InvalidQOS",
            "the account abc does not take the QOS high (qos in sites.toml:12): set qos to one of normal",
        ),
        (
            job(options=("--constraint=fast",)),
            "BadConstraints",
            "no node has what its options ask for: change --constraint=fast (options in sites.toml:12)",
        ),
        (
            job(reservation="course"),
            "ReservationDeleted",
            "there is no reservation course that it can use: name another one, or leave it out",
        ),
    ],
)
def test_a_name_that_the_queue_does_not_take_is_told_with_those_that_it_takes(
    asked: JobScript, reason: str, told: str
) -> None:
    assert SLURM.exceeded(asked, GIVEN, reason) == [told]


def test_what_pbs_never_has_enough_of_is_told_with_all_that_there_is() -> None:
    reason = "Can Never Run: Insufficient amount of resource: ncpus (R: 576 A: 8 T: 8)"
    assert QueueLimits().exceeded(job(nodes=9, cores=64), {"cores": "cores in sites.toml:4"}, reason) == [
        "the job asks for 576 cores (cores in sites.toml:4), there are 8 in all: set nodes or cores to less"
    ]
    waits = reason.replace("Can Never Run", "Not Running")
    assert QueueLimits().exceeded(job(), {}, waits) == []


def test_nothing_is_said_of_a_job_within_the_limits_or_where_none_are_known() -> None:
    assert SLURM.exceeded(job(), GIVEN, "Resources") == []
    assert QueueLimits().exceeded(job(walltime_s=1e9, nodes=1000, partition="x"), GIVEN) == []
    assert QueueLimits().broken_nodes(job(nodes=1000), GIVEN) == ""


def test_nodes_that_do_not_work_are_told_if_too_few_are_left() -> None:
    assert SLURM.broken_nodes(job(), GIVEN) == ""
    assert SLURM.broken_nodes(job(nodes=2), {"nodes": "nodes in sites.toml:9"}) == (
        "the job asks for 2 nodes (nodes in sites.toml:9), and only 1 node works in the partition debug: set nodes = "
        "1, use another partition (normal has 8), or wait until the site has repaired the others"
    )
