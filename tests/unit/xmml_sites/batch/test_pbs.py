"""What PBS answers is understood: recorded answers of OpenPBS 23.06.06; Torque as its manual words them."""

import os
import subprocess

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
    ids = ["0.pbs-login", "1.pbs-login", "2.pbs-login", "3.pbs-login", "4[].pbs-login", "5.pbs-login", "99"]
    found = OPENPBS.parse_status(recorded("pbs/qstat_f"), ids)
    assert [status.state for status in found.values()] == [
        JobState.RUNNING,
        JobState.HELD,
        JobState.WAITING,
        JobState.WAITING,
        JobState.RUNNING,
        JobState.WAITING,
        JobState.GONE,
    ]
    assert found["0.pbs-login"].nodes == "pbs1"
    assert found["3.pbs-login"].reason == "Not Running: Not enough free nodes available"


@pytest.mark.parametrize(
    ("id", "state", "status"),
    [
        ("0", JobState.CANCELLED, 0),
        ("6", JobState.FAILED, 7),
        ("7", JobState.WALLTIME_EXPIRED, -29),
        ("8", JobState.ENDED, 0),
    ],
)
def test_how_a_job_ended(id, state, status):
    found = OPENPBS.parse_status(recorded("pbs/qstat_finished"), [f"{id}.pbs-login"])[f"{id}.pbs-login"]
    assert (found.state, found.exit_status) == (state, status)


def test_a_job_that_no_node_can_ever_run_is_told_from_one_that_waits():
    found = OPENPBS.parse_status(recorded("pbs/qstat_f"), ["2.pbs-login", "3.pbs-login"])
    assert [status.can_never_run for status in found.values()] == [True, False]
    assert found["2.pbs-login"].reason.endswith("ncpus (R: 64 A: 4 T: 4)")  # of two lines


@pytest.mark.parametrize("answer", ["qstat_unknown", "qstat_finished_without_x"])
def test_a_job_that_the_server_has_forgotten_is_gone(answer):
    assert OPENPBS.parse_status(recorded(f"pbs/{answer}"), ["6"])["6"].state is JobState.GONE


def test_jobs_of_a_server_that_keeps_no_history_are_seen_as_long_as_they_run(tmp_path):
    for name, answer in (("without", recorded("pbs/qstat_without_history")), ("all", recorded("pbs/qstat_f"))):
        (tmp_path / f"{name}.out").write_text(answer.stdout)
        (tmp_path / f"{name}.err").write_text(answer.stderr)
    program = tmp_path / "qstat"
    program.write_text(
        f'#!/bin/sh\ncd {tmp_path}\n[ "$1" = -x ] && {{ cat without.err >&2; cat without.out; exit 0; }}\n'
        "cat all.err >&2; cat all.out; exit 153\n"
    )
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ids = ["0.pbs-login", "99"]
    done = subprocess.run(["sh", "-c", OPENPBS.status_command(ids)], env=environment, capture_output=True, text=True)
    found = OPENPBS.parse_status(CommandResult(done.returncode, done.stdout, done.stderr), ids)
    assert [status.state for status in found.values()] == [JobState.RUNNING, JobState.GONE]


def test_a_silent_server_says_nothing_about_jobs():
    with pytest.raises(SchedulerUnavailable):
        OPENPBS.parse_status(CommandResult(255, "", "qstat: cannot connect to server a-login (errno=15010)\n"), ["8"])


def test_an_expected_start_is_counted_from_the_sites_own_clock():
    text = "Job Id: 3.s\n    job_state = Q\n    estimated.start_time = Fri Nov 20 21:20:00 2026\n\n"
    found = OPENPBS.parse_status(CommandResult(0, "1795209540 2026-11-20T21:19:00\n" + text, ""), ["3.s"])
    assert found["3.s"].starts_in_s == 60.0


def test_a_variable_of_a_job_cannot_be_taken_for_its_state():
    text = "Job Id: 3.s\n    job_state = R\n    Variable_List = A=1\n    job_state = F,B=2\n\n"
    found = OPENPBS.parse_status(CommandResult(0, text, ""), ["3.s"])
    assert found["3.s"].state is JobState.RUNNING


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
        "-o /dev/null",
        "-e /dev/null",
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


def test_what_a_job_prints_can_be_read_while_it_runs():
    lines = OPENPBS.render(JobScript("a", "/home/alice/my run", "true")).splitlines()
    assert "exec >'/home/alice/my run/stdout' 2>'/home/alice/my run/stderr' </dev/null" in lines


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


def test_limits_of_the_server_hold_for_queues_that_have_none_of_their_own() -> None:
    server = """\
    default_queue = workq
    resources_default.ncpus = 1
    resources_default.walltime = 00:30:00
    resources_max.ncpus = 64
    resources_max.ngpus = 2
    resources_max.walltime = 12:00:00
"""
    answer = QUEUES.replace("    default_queue = workq\n", server)
    workq, long = OPENPBS.parse_limits(CommandResult(0, answer, "")).partitions
    assert (workq.default_s, workq.longest_s, workq.cores, workq.gpus) == (5400.0, 86_400.0, 128, 2)
    assert (long.default_s, long.longest_s, long.cores, long.gpus) == (1800.0, 864_000.0, 64, 2)
    answer = answer.replace("    resources_max.walltime = 240:00:00\n", "")
    assert OPENPBS.parse_limits(CommandResult(0, answer, "")).partitions[1].longest_s == 43_200.0
