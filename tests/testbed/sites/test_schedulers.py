"""Every batch system keeps the same promises, with jobs that really run.

Slurm and the site without a batch system are real; PBS is a stand-in that runs the jobs itself
(tests/support/fake_pbs.py), because it cannot be had here.
"""

import itertools
import time
from pathlib import Path

import fake_pbs
import pytest
from waiting import wait_until
from wan.soak import long_form
from xmml_sites.batch import (
    RESULT,
    STARTED,
    STDERR,
    STDOUT,
    Fork,
    JobRejected,
    JobScript,
    JobState,
    NotSupported,
    Pbs,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    Slurm,
    read_result,
)
from xmml_sites.ssh.command_result import CommandResult

#: Far more than a job takes to start or end, on a machine that does much else.
LIMIT_S = 150.0


class Queue:
    """A batch system and a user of it."""

    def __init__(self, scheduler, site, path=""):
        self.scheduler = scheduler
        self.site = site
        self.path = path
        self.ids = []
        self.numbers = itertools.count()

    def run(self, command):
        before = f"PATH={self.path}:$PATH; export PATH; " if self.path else ""
        answer = self.site.run(before + command, check=False)
        return CommandResult(answer.returncode, answer.stdout, answer.stderr)

    def folder(self):
        """A new folder for a job, with a blank in its name."""
        name = f"xmml job {next(self.numbers)}"
        assert self.run(f"mkdir '{name}'").status == 0
        return f"/home/{self.site.users[0].name}/{name}"

    def write(self, job, text=None):
        """Put a script where it can be submitted; its path."""
        path = f"{job.folder}/job.sh"
        self.outside(path).write_text(text or self.scheduler.render(job))
        return path

    def outside(self, path):
        """Where we see a file of the user."""
        return self.site.home() / Path(path).relative_to(f"/home/{self.site.users[0].name}")

    def submit(self, job):
        id = self.scheduler.parse_submit(self.run(self.scheduler.submit_command(self.write(job))))
        self.ids.append(id)
        return id

    def status(self, *ids):
        return self.scheduler.parse_status(self.run(self.scheduler.status_command(ids)), ids)

    def wait(self, id, condition):
        def fulfilled():
            status = self.status(id)[id]
            return status if condition(status) else None

        return wait_until(fulfilled, lambda: str(self.status(id)[id]), LIMIT_S)

    def speaks(self, job):
        """Wait until a job's command has written something: it runs."""
        file = self.outside(f"{job.folder}/{STDOUT}")
        wait_until(lambda: file.exists() and file.stat().st_size, f"nothing is in {file}", LIMIT_S)

    def ended(self, job):
        """Wait for the result of a job."""
        file = self.outside(f"{job.folder}/{RESULT}")
        wait_until(file.exists, lambda: str([path.name for path in file.parent.iterdir()]), LIMIT_S)
        return read_result(file.read_text())

    def text(self, job, name):
        return self.outside(f"{job.folder}/{name}").read_text()

    def close(self):
        if self.ids:
            self.run(self.scheduler.cancel_command(self.ids))
            wait_until(
                lambda: all(status.state.is_over for status in self.status(*self.ids).values()),
                lambda: str(self.status(*self.ids)),
                LIMIT_S,
            )
        self.run("rm -rf xmml* .fake-pbs bin")


@pytest.fixture(params=["local", "slurm", "pbs"])
def queue(request, bed):
    if request.param == "local":
        queue = Queue(Fork(), bed.site("gamma"))
    elif request.param == "slurm":
        queue = Queue(Slurm(), bed.site("alpha"))
    else:
        queue = Queue(Pbs(), bed.site("gamma"), "/home/carol/bin")
        queue.run(f"mkdir bin; cd bin; touch pbs; for name in {' '.join(fake_pbs.COMMANDS)}; do ln -s pbs $name; done")
        program = queue.site.home() / "bin" / "pbs"
        program.write_text(Path(fake_pbs.__file__).read_text())
        program.chmod(0o755)
    yield queue
    queue.close()


@pytest.fixture
def slurm(bed):
    queue = Queue(Slurm(), bed.site("alpha"))
    yield queue
    queue.close()


def test_a_job_runs_in_its_folder_and_tells_how_it_went(queue):
    job = JobScript("life", queue.folder(), "pwd; echo problem >&2; cat", env={"A": "x 'y'"})
    id = queue.submit(job)
    result = queue.ended(job)
    assert (result.status, result.phase) == (0, "command")
    assert result.began <= result.ended <= time.time() + 2
    assert queue.text(job, STDOUT) == f"{job.folder}\n"
    assert queue.text(job, STDERR) == "problem\n"
    assert read_result(queue.text(job, STARTED)).host == result.host
    assert queue.wait(id, lambda status: status.state.is_over).state in (JobState.ENDED, JobState.GONE)


def test_a_job_that_fails_tells_its_status(queue):
    job = JobScript("fails", queue.folder(), "exit 7")
    id = queue.submit(job)
    assert queue.ended(job).status == 7
    assert queue.wait(id, lambda status: status.state.is_over).state in (JobState.FAILED, JobState.GONE)


def test_modules_set_up_and_variables_are_there_before_the_command(queue):
    job = JobScript(
        "ready",
        queue.folder(),
        'echo "$OPENMPI_LOADED $A $B"',
        modules=("openmpi",),
        setup=("A=1", "export A"),
        env={"B": "b  'c' $A"},
    )
    queue.submit(job)
    assert queue.ended(job).status == 0, queue.text(job, STDERR)
    assert queue.text(job, STDOUT) == f"{queue.site.name} 1 b  'c' $A\n"


@pytest.mark.parametrize(
    ("what", "phase", "detail"),
    [({"modules": ("nothing",)}, "module", "nothing"), ({"setup": ("true", "test -e /no")}, "setup", "test -e /no")],
)
def test_what_cannot_be_made_ready_is_named_and_the_command_is_not_run(queue, what, phase, detail):
    job = JobScript("not ready".replace(" ", "-"), queue.folder(), "echo run", **what)
    queue.submit(job)
    result = queue.ended(job)
    assert (result.phase, result.detail) == (phase, detail)
    assert result.status != 0
    assert queue.text(job, STDOUT) == ""


def test_a_cancelled_job_ends_with_all_that_it_started(queue):
    job = JobScript("cancelled", queue.folder(), "sleep 1000 & echo $!; wait $!")
    id = queue.submit(job)
    queue.speaks(job)
    queue.run(queue.scheduler.cancel_command([id, "99999" if queue.scheduler.name != "local" else "h:1:1"]))
    assert queue.wait(id, lambda status: status.state.is_over).state in (JobState.CANCELLED, JobState.GONE)
    result = queue.ended(job)
    # All processes of the job are told; the command may have ended before the script hears of it.
    assert (result.phase, result.detail, result.status) in (("stopped", "command", 143), ("command", "", 143))


def test_a_command_that_ignores_being_told_is_ended_all_the_same(queue):
    job = JobScript("stubborn", queue.folder(), "trap '' TERM; echo on; while :; do sleep 0.1; done")
    id = queue.submit(job)
    queue.speaks(job)
    queue.run(queue.scheduler.cancel_command([id]))
    assert queue.wait(id, lambda status: status.state.is_over).state in (JobState.CANCELLED, JobState.GONE)


@pytest.mark.parametrize(
    "queue",
    ["local", pytest.param("slurm", marks=long_form("Slurm counts in minutes")), "pbs"],
    indirect=True,
)
def test_the_time_limit_ends_a_job_and_is_named(queue):
    job = JobScript("long", queue.folder(), "sleep 1000", walltime_s=2)
    id = queue.submit(job)
    status = queue.wait(id, lambda status: status.state.is_over)
    assert status.state in (JobState.WALLTIME_EXPIRED, JobState.GONE)
    assert queue.ended(job).phase == "walltime"


def test_a_job_may_begin_later(queue):
    job = JobScript("later", queue.folder(), "true", starts_after_s=2)
    before = time.time()
    queue.submit(job)
    assert queue.ended(job).began >= int(before) + 1


def test_a_held_job_waits_for_its_release(queue):
    job = JobScript("held", queue.folder(), "true", is_held=True)
    if queue.scheduler.name == "local":
        with pytest.raises(NotSupported):
            queue.submit(job)
        return
    id = queue.submit(job)
    assert queue.status(id)[id].state is JobState.HELD
    assert queue.run(queue.scheduler.release_command([id])).status == 0
    assert queue.ended(job).status == 0


def test_one_question_is_enough_for_many_jobs_also_unknown_ones(queue):
    jobs = [JobScript(f"many{n}", queue.folder(), f"exit {n % 2}") for n in range(4)]
    ids = [queue.submit(job) for job in jobs]
    for job in jobs:
        queue.ended(job)
    unknown = "99999" if queue.scheduler.name != "local" else "elsewhere:1:1"
    found = queue.status(*ids, unknown)
    assert list(found) == [*ids, unknown]
    if queue.scheduler.name != "local":
        assert found[unknown].state is JobState.GONE


def test_the_version_and_the_free_cores_are_known(queue):
    version = queue.scheduler.parse_version(queue.run(queue.scheduler.version_command()))
    assert version.split()[0] in ("none", "Slurm", "OpenPBS")
    free, total = queue.scheduler.parse_free(queue.run(queue.scheduler.free_command("")))
    assert 0 <= free <= total
    assert total >= 2


@pytest.mark.parametrize("queue", ["slurm", "pbs"], indirect=True)
def test_a_queue_that_does_not_exist_is_a_rejection(queue):
    with pytest.raises(JobRejected, match=r"(?i)invalid partition|unknown queue"):
        queue.submit(JobScript("wrong", queue.folder(), "true", partition="nosuch"))


def test_slurm_says_when_a_job_could_start_before_and_after_it_is_submitted(slurm):
    full = JobScript("full", slurm.folder(), "sleep 1000", nodes=2, cores=4, walltime_s=3600)
    next = JobScript("next", slurm.folder(), "true", nodes=2, cores=4, walltime_s=60)
    path = slurm.write(next)
    ask = slurm.scheduler.estimate_command(path)
    assert slurm.scheduler.parse_estimate(slurm.run(ask)) < 600
    slurm.wait(slurm.submit(full), lambda status: status.state is JobState.RUNNING)
    assert 3000 < slurm.scheduler.parse_estimate(slurm.run(ask)) <= 3700
    expected = slurm.wait(slurm.submit(next), lambda status: status.starts_in_s is not None)
    assert 3000 < expected.starts_in_s <= 3700


def test_slurm_names_a_job_that_can_never_run(slurm):
    id = slurm.submit(JobScript("never", slurm.folder(), "true", partition="short", walltime_s=3600))
    assert slurm.wait(id, lambda status: status.reason == "PartitionTimeLimit").can_never_run


def test_the_parts_of_a_heterogeneous_job_start_together_and_tell_for_themselves(slurm):
    command = 'echo "$XMML_HET_GROUP $SLURMD_NODENAME"; date +%s.%N; exit $XMML_HET_GROUP'
    parts = [JobScript("a", slurm.folder(), command, cores=4), JobScript("b", slurm.folder(), command, cores=4)]
    text = slurm.scheduler.render_together(parts)
    id = slurm.scheduler.parse_submit(slurm.run(slurm.scheduler.submit_command(slurm.write(parts[0], text))))
    slurm.ids.append(id)
    assert [slurm.ended(part).status for part in parts] == [0, 1]
    said = [slurm.text(part, STDOUT).split() for part in parts]
    assert [words[0] for words in said] == ["0", "1"]
    assert {words[1] for words in said} == {"alpha1", "alpha2"}
    slurm.wait(id, lambda status: status.state.is_over)


def test_cancelling_a_heterogeneous_job_ends_all_parts(slurm):
    parts = [JobScript(n, slurm.folder(), "sleep 1000", cores=4) for n in "ab"]
    text = slurm.scheduler.render_together(parts)
    id = slurm.scheduler.parse_submit(slurm.run(slurm.scheduler.submit_command(slurm.write(parts[0], text))))
    slurm.ids.append(id)
    started = [slurm.outside(f"{part.folder}/{STARTED}") for part in parts]
    wait_until(lambda: all(file.exists() for file in started), "not all parts begin", LIMIT_S)
    slurm.run(slurm.scheduler.cancel_command([id]))
    assert slurm.wait(id, lambda status: status.state.is_over).state is JobState.CANCELLED


def test_slurm_reserves_for_an_operator_and_refuses_a_plain_user(bed, slurm):
    wish = ReservationRequest(
        "xmml-test", "alice", nodes=1, cores=4, starts_at=int(time.time()) + 3600, duration_s=60, partition="batch"
    )
    ask = slurm.scheduler.reserve_command(wish)
    with pytest.raises(ReservationRefused, match="alice"):
        slurm.scheduler.parse_reserve(slurm.run(ask), wish)
    operator = bed.cluster("alpha").slurm

    def as_operator(command):
        answer = operator.root(command, check=True)
        return CommandResult(0, answer, "")

    try:
        assert slurm.scheduler.parse_reserve(as_operator(ask), wish) == "xmml-test"
        stands = slurm.scheduler.parse_reservation(slurm.run(slurm.scheduler.reservation_command("xmml-test")))
        assert stands is ReservationState.CONFIRMED
    finally:
        as_operator(slurm.scheduler.unreserve_command("xmml-test"))
    gone = slurm.scheduler.parse_reservation(slurm.run(slurm.scheduler.reservation_command("xmml-test")))
    assert gone is ReservationState.GONE


def test_a_job_runs_in_a_reservation_made_for_its_user(bed, slurm):
    operator = bed.cluster("alpha").slurm
    wish = ReservationRequest(
        "xmml-now", "alice", nodes=1, cores=4, starts_at=int(time.time()), duration_s=3600, partition="batch"
    )
    operator.root(slurm.scheduler.reserve_command(wish), check=True)
    try:
        job = JobScript(
            "reserved", slurm.folder(), "echo $SLURM_JOB_RESERVATION", reservation="xmml-now", walltime_s=60
        )
        id = slurm.submit(job)
        assert slurm.ended(job).status == 0
        assert slurm.text(job, STDOUT) == "xmml-now\n"
        slurm.wait(id, lambda status: status.state.is_over)
    finally:
        operator.root(slurm.scheduler.unreserve_command("xmml-now"), check=True)


@long_form("half a minute until Slurm notices")
def test_a_node_that_crashes_fails_its_job_and_the_job_does_not_come_back(own_bed):
    queue = Queue(Slurm(), own_bed.site("alpha"))
    job = JobScript("crash", queue.folder(), "sleep 1000", options=("--nodelist=alpha2",))
    id = queue.submit(job)
    queue.wait(id, lambda status: status.state is JobState.RUNNING)
    own_bed.site("alpha").placed.node(2).crash()
    assert queue.wait(id, lambda status: status.state.is_over).state is JobState.NODE_FAILED
    assert not queue.outside(f"{job.folder}/{RESULT}").exists()
