"""Whatever goes wrong at one site: the others are released, one message says what and where, nothing is left.

Each fault is there before the run begins, so its whole time is taken: from the beginning until nothing is left (jobs,
processes, files, ports, sockets) at any site and on the launching machine. Its limit is RELEASED_WITHIN_S, and it is
printed (`pytest -s`).
"""

import re

import pytest
from testbed.pair import Pair, full_folder, sites
from testbed.release import check_released

CLUSTERS = {"left": "alpha", "right": "beta"}
MIXED = {"left": "alpha", "right": "gamma"}


@pytest.fixture
def pair(open_bed, tmp_path):
    """Makes the model."""
    return lambda name="pair", **options: Pair(open_bed, tmp_path / name, **options)


def check(run, *words):
    """The run ended because of a site, says so in its last line, and left nothing."""
    check_released(run, since=run.began)
    assert run.process.returncode == 5, run.output
    for word in words:
        assert re.search(word, run.lines[-1]), run.output


def test_a_site_that_is_down_ends_the_run(open_bed, pair):
    gamma = open_bed.site("gamma")
    gamma.stop_sshd()
    try:
        check(pair().start(sites(open_bed), MIXED), "gamma cannot be reached: connection refused")
    finally:
        gamma.start_sshd()


def test_a_changed_host_key_ends_the_run(open_bed, pair):
    with open_bed.another_host_key("gamma"):
        check(pair().start(sites(open_bed), MIXED), "the host key of gamma is not the one in your known_hosts")


def test_a_full_quota_ends_the_run(open_bed, pair):
    with full_folder(open_bed, "gamma") as folder:
        run = pair().run(sites(open_bed, gamma=f'work = "{folder}"'), MIXED)
    check(run, "gamma", "No space left on device")


def test_a_missing_module_ends_the_run_and_is_named(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='modules = ["nothing"]'), CLUSTERS)
    check(run, "alpha", "nothing")


def test_a_python_without_xmml_ends_the_run_before_a_job_waits_in_the_queue(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='python = "python3"'), CLUSTERS)
    check(run, "python3 at alpha has no xMML: install it there")
    assert "alpha: submitted" not in run.output


#: Says that it is an old Python, and is none in truth.
OLD_PYTHON = """#!/bin/sh
case "$*" in *version_info*) echo "python-version 3.9 python-with-xmml"; exit;; esac
exec /opt/xmml/bin/python "$@"
"""


def test_a_python_that_is_too_old_ends_the_run_before_a_job_waits_in_the_queue(open_bed, pair):
    python = open_bed.site("alpha").home() / "old-python"
    python.write_text(OLD_PYTHON)
    python.chmod(0o755)
    run = pair().start(sites(open_bed, alpha='python = "~/old-python"'), CLUSTERS)
    run.wait()
    python.unlink()
    check(run, "~/old-python at alpha is Python 3.9, but xMML needs 3.11 or newer")
    assert "alpha: submitted" not in run.output


def test_a_rejected_job_ends_the_run_in_the_queues_own_words(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='partition = "nosuch"'), CLUSTERS)
    check(run, "(?i)invalid partition")


def test_a_job_that_can_never_start_ends_the_run_with_the_value_that_is_wrong_and_one_that_would_do(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='partition = "short"'), CLUSTERS)
    # Slurm calls it by one word or the other, as it happens to look at the job.
    check(
        run,
        "Partition(TimeLimit|Config)",
        r"asks for 30 min \(walltime in \S*sites.toml:\d+\), the partition short allows 5 min: "
        r'set walltime = "5 min" or another partition \(batch allows 2 hr\)',
    )


def test_a_partition_that_there_is_not_ends_the_run_with_those_that_there_are(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='partition = "nosuch"'), CLUSTERS)
    check(run, r"no partition nosuch \(partition in \S*sites.toml:\d+\): set partition to one of batch, short")
