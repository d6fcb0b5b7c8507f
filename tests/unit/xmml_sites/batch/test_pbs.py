"""What PBS answers is understood: recorded answers of OpenPBS 23.06.06; Torque as its manual words them."""

import pytest
from recorded import recorded
from xmml_sites.batch import (
    JobRejected,
    JobScript,
    JobState,
    NotSupported,
    Pbs,
    QueueLimits,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    SchedulerUnavailable,
)
from xmml_sites.ssh.command_result import CommandResult

OPENPBS = Pbs("openpbs")
TORQUE = Pbs("torque")
WISH = ReservationRequest("xmml", "alice", nodes=2, cores=4, starts_at=1_800_000_000, duration_s=90)


@pytest.mark.parametrize(
    ("answer", "id"), [("qsub", "1.a-login"), ("qsub_array", "5[].a-login"), ("qsub_hold", "2.a-login")]
)
def test_the_id_of_a_submitted_job(answer, id):
    assert OPENPBS.parse_submit(recorded(f"pbs/{answer}")) == id


def test_a_rejected_job_says_why():
    with pytest.raises(JobRejected, match="Unknown queue"):
        OPENPBS.parse_submit(recorded("pbs/qsub_bad_queue"))


def test_a_queue_that_does_not_answer_has_not_rejected_the_job():
    with pytest.raises(SchedulerUnavailable):
        OPENPBS.parse_submit(CommandResult(1, "", "qsub: cannot connect to server a-login (errno=15010)\n"))


def test_the_queue_while_jobs_wait_and_run():
    ids = ["1.a-login", "2.a-login", "3.a-login", "4.a-login", "5[].a-login", "99.a-login"]
    found = OPENPBS.parse_status(recorded("pbs/qstat_f_json"), ids)
    assert [status.state for status in found.values()] == [
        JobState.RUNNING,
        JobState.HELD,
        JobState.WAITING,
        JobState.WAITING,
        JobState.RUNNING,
        JobState.GONE,
    ]
    assert found["1.a-login"].nodes == "a1"
    assert found["3.a-login"].reason.startswith("Not Running: Insufficient amount of resource")


@pytest.mark.parametrize(
    ("answer", "id", "state", "status"),
    [
        ("qstat_finished_deleted", "1", JobState.CANCELLED, 271),
        ("qstat_finished_failed", "8", JobState.FAILED, 7),
        ("qstat_walltime_exceeded", "9", JobState.WALLTIME_EXPIRED, -29),
        ("qstat_all_history", "2", JobState.ENDED, 0),
    ],
)
def test_how_a_job_ended(answer, id, state, status):
    found = OPENPBS.parse_status(recorded(f"pbs/{answer}"), [f"{id}.a-login"])[f"{id}.a-login"]
    assert (found.state, found.exit_status) == (state, status)


def test_a_job_that_no_node_can_ever_run_is_told_from_one_that_waits():
    found = OPENPBS.parse_status(recorded("pbs/qstat_all_history"), ["6.a-login", "4.a-login"])
    assert [status.can_never_run for status in found.values()] == [True, False]


@pytest.mark.parametrize("answer", ["qstat_unknown", "qstat_finished_without_x"])
def test_a_job_that_the_server_has_forgotten_is_gone(answer):
    assert OPENPBS.parse_status(recorded(f"pbs/{answer}"), ["8"])["8"].state is JobState.GONE


def test_a_silent_server_says_nothing_about_jobs():
    with pytest.raises(SchedulerUnavailable):
        OPENPBS.parse_status(CommandResult(255, "", "qstat: cannot connect to server a-login (errno=15010)\n"), ["8"])


def test_an_expected_start_is_counted_from_the_sites_own_clock():
    text = '{"Jobs": {"3.s": {"job_state": "Q", "estimated": {"start_time": "Fri Nov 20 21:20:00 2026"}}}}'
    found = OPENPBS.parse_status(CommandResult(0, "1795209540 2026-11-20T21:19:00\n" + text, ""), ["3.s"])
    assert found["3.s"].starts_in_s == 60.0


def test_an_environment_that_breaks_the_json_does_not_hide_the_jobs():
    answer = recorded("pbs/qstat_f_json")
    broken = answer.stdout.replace('"PBS_O_HOME":', '"FUNC":\t"() { echo "hi" }",\n"PBS_O_HOME":')
    ids = ["1.a-login", "2.a-login", "3.a-login"]
    assert [job.state for job in OPENPBS.parse_status(CommandResult(0, broken, ""), ids).values()] == [
        JobState.RUNNING,
        JobState.HELD,
        JobState.WAITING,
    ]


def test_an_answer_that_is_none_is_not_taken_for_an_empty_queue():
    with pytest.raises(SchedulerUnavailable, match="not understood"):
        OPENPBS.parse_status(CommandResult(0, "Segmentation fault\n", ""), ["1"])


def test_the_version_and_a_server_that_is_down():
    version = recorded("pbs/version").stdout
    assert OPENPBS.parse_version(CommandResult(0, version + "Server: a-login\n", "")) == "OpenPBS 23.06.06"
    with pytest.raises(SchedulerUnavailable, match="its server does not answer"):
        OPENPBS.parse_version(CommandResult(255, version, "qstat: cannot connect to server a-login (errno=15010)"))
    with pytest.raises(SchedulerUnavailable, match="not there"):
        OPENPBS.parse_version(CommandResult(127, "sh: 1: qstat: not found\n", ""))


def test_free_cores_are_what_the_nodes_have_less_what_is_taken():
    assert OPENPBS.parse_free(recorded("pbs/pbsnodes_json")) == (5, 8)


def test_a_reservation_is_asked_for_and_then_confirmed():
    assert OPENPBS.parse_reserve(recorded("pbs/rsub"), WISH) == "R10"
    assert OPENPBS.parse_reservation(recorded("pbs/rstat")) is ReservationState.CONFIRMED
    assert OPENPBS.parse_reservation(CommandResult(0, "", "")) is ReservationState.GONE
    with pytest.raises(ReservationRefused):
        OPENPBS.parse_reserve(CommandResult(0, "R11.a-login DENIED\n", ""), WISH)
    with pytest.raises(ReservationRefused, match="Torque"):
        TORQUE.reserve_command(WISH)


def test_everything_that_a_job_asks_for_stands_in_its_script():
    job = JobScript(
        "a-name-that-is-too-long",
        "/home/alice/run",
        "true",
        nodes=2,
        cores=4,
        memory=3 * 2**30,
        gpus=1,
        walltime_s=3661,
        partition="workq",
        account="abc",
        is_held=True,
        starts_after_s=60,
        options=("-m n",),
    )
    options = [line[5:] for line in OPENPBS.render(job).splitlines() if line.startswith("#PBS")]
    assert options == [
        "-N a-name-that-is-",
        "-o /home/alice/run/stdout",
        "-e /home/alice/run/stderr",
        "-r n",
        "-S /bin/bash",
        "-l walltime=1:01:01",
        "-l select=2:ncpus=4:mpiprocs=4:mem=3072mb:ngpus=1 -l place=scatter",
        "-q workq",
        "-A abc",
        "-h",
        "-m n",
    ]
    assert "# begin-after 60\n" in OPENPBS.render(job)
    assert "#PBS -l nodes=2:ppn=4:gpus=1 -l mem=6144mb\n" in TORQUE.render(job)


def test_a_reservation_is_used_as_the_queue_that_it_is():
    assert "#PBS -q R10\n" in OPENPBS.render(JobScript("a", "/a", "true", partition="workq", reservation="R10"))


def test_torque_tells_of_jobs_in_lines():
    text = (
        "Job Id: 7.master\n    Job_Name = canal\n    job_state = C\n    exit_status = 271\n    exec_host = n1/0\n\n"
        "Job Id: 8.master\n    job_state = Q\n"
    )
    found = TORQUE.parse_status(CommandResult(0, text, ""), ["7.master", "8.master", "9.master"])
    assert [status.state for status in found.values()] == [JobState.CANCELLED, JobState.WAITING, JobState.GONE]


def test_there_are_no_heterogeneous_jobs_and_no_other_dialects():
    with pytest.raises(NotSupported):
        OPENPBS.render_together([])
    with pytest.raises(ValueError, match="openpbs and torque"):
        Pbs("sge")


QUEUES = """\
Server: master
    server_state = Active
    default_queue = workq

Queue: workq
    queue_type = Execution
    resources_max.mem = 64gb
    resources_max.ncpus = 128
    resources_max.nodect = 4
    resources_max.walltime = 24:00:00
    resources_default.walltime = 01:30:00
    enabled = True
    started = True

Queue: long
    queue_type = Execution
    resources_max.walltime = 240:00:00
    enabled = True

Queue: closed
    queue_type = Execution
    enabled = False
"""


def test_limits_of_open_queues_are_what_a_job_can_have_at_most() -> None:
    limits = OPENPBS.parse_limits(CommandResult(0, QUEUES, ""))
    assert limits.default == "workq"
    workq, long = limits.partitions
    assert (workq.default_s, workq.longest_s, workq.nodes) == (5400.0, 86_400.0, 4)
    assert (workq.cores, workq.memory_bytes) == (128, 2**36)
    assert (long.name, long.default_s, long.longest_s) == ("long", 864_000.0, 864_000.0)
    assert OPENPBS.parse_limits(CommandResult(1, "", "qstat: cannot connect")) == QueueLimits()
