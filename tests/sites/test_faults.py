"""Whatever goes wrong at one site: the others are released, one message says what and where, nothing is left.

That nothing is left (jobs, processes, files, ports) is checked after every test: within thirty seconds, and within ten
with `XMML_SOAK=1`.
"""

import re
import time

import pytest
from testbed.pair import Pair, full_folder, sites
from xmml_executors.schedulers import JobState

CLUSTERS = {"left": "alpha", "right": "beta"}
MIXED = {"left": "alpha", "right": "gamma"}


@pytest.fixture
def pair(open_bed, tmp_path):
    """Makes the model."""
    return lambda name="pair", **options: Pair(open_bed, tmp_path / name, **options)


def last_words(run):
    """What the run says in the end."""
    return "\n".join(run.lines[-6:])


def test_a_site_that_is_down_ends_the_run(open_bed, pair):
    gamma = open_bed.site("gamma")
    gamma.stop_sshd()
    try:
        run = pair().run(sites(open_bed), MIXED)
    finally:
        gamma.start_sshd()
    assert run.process.returncode == 5, run.output
    assert "gamma cannot be reached: connection refused" in last_words(run)


def test_a_changed_host_key_ends_the_run(open_bed, pair):
    known = open_bed.folder / "ssh" / "known_hosts"
    before = known.read_text()
    alpha_key = next(line.split(" ", 1)[1] for line in before.splitlines() if line.startswith("alpha"))
    rows = [
        line if not line.startswith("gamma") else f"{line.split(' ')[0]} {alpha_key}" for line in before.splitlines()
    ]
    known.write_text("\n".join(rows) + "\n")
    try:
        run = pair().run(sites(open_bed), MIXED)
    finally:
        known.write_text(before)
    assert run.process.returncode == 5, run.output
    assert "the host key of gamma is not the one in your known_hosts" in last_words(run)


def test_a_full_quota_ends_the_run(open_bed, pair):
    with full_folder(open_bed, "gamma") as folder:
        run = pair().run(sites(open_bed, gamma=f'work = "{folder}"'), MIXED)
        assert run.process.returncode == 5, run.output
        assert "gamma" in last_words(run)
        assert "No space left on device" in last_words(run)


def test_a_missing_module_ends_the_run_and_is_named(open_bed, pair):
    run = pair().run(sites(open_bed, alpha='modules = ["nothing"]'), CLUSTERS)
    assert run.process.returncode == 5, run.output
    assert "alpha" in last_words(run)
    assert "nothing" in last_words(run)


def test_a_python_without_xmml_ends_the_run_before_a_job_waits_in_the_queue(open_bed, pair):
    run = pair().run(sites(open_bed, alpha='python = "python3"'), CLUSTERS)
    assert run.process.returncode == 5, run.output
    assert "python3 at alpha has no xMML: install it there" in last_words(run)
    assert "alpha: submitted" not in run.output


def test_a_rejected_job_ends_the_run_in_the_queues_own_words(open_bed, pair):
    run = pair().run(sites(open_bed, alpha='partition = "nosuch"'), CLUSTERS)
    assert run.process.returncode == 5, run.output
    assert re.search(r"(?i)invalid partition", last_words(run)), run.output


def test_a_job_that_can_never_start_ends_the_run(open_bed, pair):
    run = pair().run(sites(open_bed, alpha='partition = "short"'), CLUSTERS)
    assert run.process.returncode == 5, run.output
    # Slurm calls it by one word or the other, as it happens to look at the job.
    assert re.search("Partition(TimeLimit|Config)", last_words(run)), run.output


def test_ctrl_c_ends_a_run_whose_job_is_stuck_in_a_queue(open_bed, pair):
    alpha = open_bed.cluster("alpha")
    blocker = alpha.run("sbatch --parsable -N2 --exclusive -t 10 -o /dev/null --wrap 'sleep 1000'", alpha.users[1])
    try:
        run = pair().start(sites(open_bed), CLUSTERS)
        wait_for_job(open_bed, "beta", JobState.RUNNING)
        run.interrupt()
        assert run.wait() == 130, run.output
    finally:
        alpha.run(f"scancel -Q {blocker.stdout.strip()}", alpha.users[1])


def test_ctrl_c_ends_a_run_that_is_staging_its_files(open_bed, pair):
    run = pair().start(sites(open_bed), CLUSTERS)
    run.until("staged")
    run.interrupt()
    assert run.wait() == 130, run.output


def wait_for_job(bed, site, state):
    """Wait until the first user of a cluster has a job in a state."""
    slurm = bed.cluster(site).slurm
    end = time.monotonic() + 60
    while state.name not in slurm.root("squeue -h -o %T"):
        assert time.monotonic() < end, slurm.root("squeue")
        time.sleep(0.1)
