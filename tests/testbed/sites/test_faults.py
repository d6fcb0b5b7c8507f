"""Whatever goes wrong at one site: the others are released, one message says what and where, nothing is left.

Each fault is there before the run begins, so its whole time is taken: from the beginning until nothing is left (jobs,
processes, files, ports, sockets) at any site and on the launching machine. It may be thirty seconds, ten with
`XMML_SOAK=1`, and is printed (`pytest -s`).
"""

import re
import time

import pytest
from testbed.pair import Pair, full_folder, sites
from testbed.release import check_released, released
from xmml_executors.schedulers import JobState

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
    known = open_bed.folder / "ssh" / "known_hosts"
    before = known.read_text()
    alpha_key = next(line.split(" ", 1)[1] for line in before.splitlines() if line.startswith("alpha"))
    rows = [
        line if not line.startswith("gamma") else f"{line.split(' ')[0]} {alpha_key}" for line in before.splitlines()
    ]
    known.write_text("\n".join(rows) + "\n")
    try:
        check(pair().start(sites(open_bed), MIXED), "the host key of gamma is not the one in your known_hosts")
    finally:
        known.write_text(before)


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


def test_a_rejected_job_ends_the_run_in_the_queues_own_words(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='partition = "nosuch"'), CLUSTERS)
    check(run, "(?i)invalid partition")


def test_a_job_that_can_never_start_ends_the_run(open_bed, pair):
    run = pair().start(sites(open_bed, alpha='partition = "short"'), CLUSTERS)
    # Slurm calls it by one word or the other, as it happens to look at the job.
    check(run, "Partition(TimeLimit|Config)")


def test_ctrl_c_ends_a_run_whose_job_is_stuck_in_a_queue(open_bed, pair):
    alpha = open_bed.cluster("alpha")
    blocker = alpha.run("sbatch --parsable -N2 --exclusive -t 10 -o /dev/null --wrap 'sleep 1000'", alpha.users[1])
    try:
        run = pair().start(sites(open_bed), CLUSTERS)
        wait_for_job(open_bed, "beta", JobState.RUNNING)
        with released(run, "beta", "gamma"):  # alpha has the blocker
            run.interrupt()
        assert run.process.returncode == 130, run.output
    finally:
        alpha.run(f"scancel -Q {blocker.stdout.strip()}", alpha.users[1])


def test_ctrl_c_ends_a_run_that_is_staging_its_files(open_bed, pair):
    run = pair().start(sites(open_bed), CLUSTERS)
    run.until("staged")
    with released(run):
        run.interrupt()
    assert run.process.returncode == 130, run.output


def wait_for_job(bed, site, state):
    """Wait until the first user of a cluster has a job in a state."""
    slurm = bed.cluster(site).slurm
    end = time.monotonic() + 60
    while state.name not in slurm.root("squeue -h -o %T"):
        assert time.monotonic() < end, slurm.root("squeue")
        time.sleep(0.1)
