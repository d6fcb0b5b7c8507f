"""What Slurm answers is understood: recorded answers of Slurm 22.05.8, and errors as its manual words them."""

import os
import subprocess
from dataclasses import replace

import pytest
from recorded import recorded
from xmml_sites.batch import (
    JobRejected,
    JobScript,
    JobState,
    NodeStep,
    QueueLimits,
    ReservationRefused,
    ReservationRequest,
    ReservationState,
    SchedulerUnavailable,
    Slurm,
    WithinJob,
)
from xmml_sites.ssh.command_result import CommandResult

SLURM = Slurm()
WISH = ReservationRequest("xmml", "alice", nodes=1, cores=4, starts_at=1_800_000_000, duration_s=60)
#: The site's clock when the queue was recorded, as the status command prints it before the answer.
CLOCK = "1795209540 2026-11-20T21:19:00\n"


@pytest.mark.parametrize(
    ("answer", "id"),
    [
        ("sbatch_parsable", "1"),
        ("sbatch_text", "2"),
        ("sbatch_het", "6"),
        ("sbatch_array", "5"),
        ("sbatch_fails", "10"),
    ],
)
def test_the_id_of_a_submitted_job(answer, id):
    assert SLURM.parse_submit(recorded(f"slurm/{answer}")) == id


def test_the_id_where_several_clusters_share_a_database():
    assert SLURM.parse_submit(CommandResult(0, "Welcome to cluster b!\n77;b\n", "")) == "77"


def test_a_rejected_job_says_why():
    with pytest.raises(JobRejected, match="Batch job submission failed: Invalid partition name specified"):
        SLURM.parse_submit(recorded("slurm/sbatch_bad_partition"))


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "bash: line 1: sbatch: command not found",
    ],
)
def test_a_queue_that_does_not_answer_has_not_rejected_the_job(said):
    with pytest.raises(SchedulerUnavailable):
        SLURM.parse_submit(CommandResult(1, "", said + "\n"))


def test_the_queue_while_jobs_wait_and_run():
    found = SLURM.parse_status(recorded("slurm/squeue_pipe"), ["1", "2", "3", "4", "5", "6", "99"])
    assert {id: status.state for id, status in found.items()} == {
        "1": JobState.RUNNING,
        "2": JobState.WAITING,
        "3": JobState.HELD,
        "4": JobState.WAITING,
        "5": JobState.WAITING,
        "6": JobState.WAITING,
        "99": JobState.GONE,
    }
    assert found["1"].nodes == "a1"
    assert found["3"].reason == "JobHeldUser"


def test_the_queue_when_jobs_have_ended():
    found = SLURM.parse_status(recorded("slurm/squeue_all_states"), ["1", "2", "6", "9", "10"])
    assert [status.state for status in found.values()] == [
        JobState.CANCELLED,
        JobState.ENDED,
        JobState.ENDED,
        JobState.WAITING,
        JobState.FAILED,
    ]
    assert found["9"].can_never_run
    assert not found["10"].can_never_run


def test_the_expected_start_is_counted_from_the_sites_own_clock():
    answer = recorded("slurm/squeue_pipe")
    found = SLURM.parse_status(CommandResult(0, CLOCK + answer.stdout, ""), ["1", "2", "3", "4"])
    assert [status.starts_in_s for status in found.values()] == [None, 60.0, None, 541.0]


def test_without_the_sites_clock_no_start_is_expected():
    assert SLURM.parse_status(recorded("slurm/squeue_pipe"), ["2"])["2"].starts_in_s is None


def test_an_unknown_job_is_gone_and_a_silent_queue_says_nothing():
    unknown = CommandResult(1, CLOCK, "slurm_load_jobs error: Invalid job id specified\n")
    assert SLURM.parse_status(unknown, ["4"])["4"].state is JobState.GONE
    with pytest.raises(SchedulerUnavailable, match="Unable to contact"):
        SLURM.parse_status(
            CommandResult(1, CLOCK, "slurm_load_jobs error: Unable to contact slurm controller\n"), ["4"]
        )


def test_a_state_that_is_not_known_yet_is_not_taken_for_an_end():
    assert SLURM.parse_status(CommandResult(0, "4|POWERED_UP|None|N/A|\n", ""), ["4"])["4"].state is JobState.RUNNING


def test_of_a_heterogeneous_job_the_worst_part_counts():
    parts = "6+0|COMPLETED|None|N/A|a1\n6+1|NODE_FAIL|None|N/A|a2\n"
    assert SLURM.parse_status(CommandResult(0, parts, ""), ["6"])["6"].state is JobState.NODE_FAILED


def test_a_part_that_can_never_start_is_seen_behind_others_that_wait():
    parts = "6+0|PENDING|Resources|N/A|\n6+1|PENDING|PartitionTimeLimit|N/A|\n6+2|PENDING|JobHeldUser|N/A|\n"
    status = SLURM.parse_status(CommandResult(0, parts, ""), ["6"])["6"]
    assert (status.can_never_run, status.reason) == (True, "PartitionTimeLimit")


def test_the_estimate_of_a_job_that_was_not_submitted():
    answer = recorded("slurm/test_only")
    assert SLURM.parse_estimate(CommandResult(0, "1795209540 2026-11-21T01:18:05\n", answer.stderr)) == 60.0
    with pytest.raises(JobRejected):
        SLURM.parse_estimate(recorded("slurm/sbatch_bad_partition"))


def test_the_version_and_a_controller_that_is_down():
    version = recorded("slurm/version").stdout
    assert (
        SLURM.parse_version(CommandResult(0, version + "Slurmctld(primary) at a-login is UP\n", "")) == "Slurm 22.05.8"
    )
    with pytest.raises(SchedulerUnavailable, match="its controller does not answer"):
        SLURM.parse_version(CommandResult(0, version + "Slurmctld(primary) at a-login is DOWN\n", ""))
    with pytest.raises(SchedulerUnavailable, match="not there"):
        SLURM.parse_version(CommandResult(127, "", "sh: 1: sbatch: not found\n"))


def test_free_cores_are_those_of_the_default_partition():
    assert SLURM.parse_free(recorded("slurm/sinfo_pipe")) == (6, 8)
    assert SLURM.parse_free(CommandResult(0, "short|2/2/0/4\n", "")) == (2, 4)


def test_a_reservation_is_refused_to_a_plain_user():
    with pytest.raises(ReservationRefused, match="Invalid user id"):
        SLURM.parse_reserve(recorded("slurm/reservation_denied"), WISH)
    assert SLURM.parse_reserve(CommandResult(0, "Reservation created: xmml\n", ""), WISH) == "xmml"


def test_a_reservation_begins_in_the_second_asked_for_and_goes_when_nobody_uses_it():
    command = SLURM.reserve_command(replace(WISH, idle_s=90.0))
    said = subprocess.run(
        ["sh", "-c", f"scontrol() {{ printf '%s\\n' \"$@\"; }}; {command}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TZ": "UTC"},
    )
    assert said.stdout.splitlines() == [
        *("create", "reservation", "ReservationName=xmml", "Duration=1", "Users=alice", "NodeCnt=1"),
        *("Flags=PURGE_COMP=0:01:30", "StartTime=2027-01-15T08:00:00"),
    ]


def test_how_a_reservation_stands():
    shown = "ReservationName=xmml StartTime=2026-11-20T21:19:00 Nodes=a1 State={} BurstBuffer=(null)\n"
    assert SLURM.parse_reservation(CommandResult(0, shown.format("INACTIVE"), "")) is ReservationState.CONFIRMED
    assert SLURM.parse_reservation(CommandResult(0, shown.format("ACTIVE"), "")) is ReservationState.ACTIVE
    assert SLURM.parse_reservation(CommandResult(1, "", "Reservation xmml not found\n")) is ReservationState.GONE


def test_everything_that_a_job_asks_for_stands_in_its_script():
    script = SLURM.render(
        JobScript(
            "canal",
            "/home/alice/my runs/1",
            "true",
            nodes=2,
            cores=4,
            memory=3 * 2**30,
            gpus=1,
            walltime_s=90.5,
            partition="batch",
            account="abc",
            qos="normal",
            reservation="xmml",
            starts_after_s=9.2,
            is_held=True,
            options=("--constraint=ib",),
        )
    )
    options = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]
    assert options == [
        "--job-name=canal",
        '"--output=/home/alice/my runs/1/stdout"',
        '"--error=/home/alice/my runs/1/stderr"',
        "--no-requeue",
        "--time=0:01:31",
        "--begin=now+10",
        "--hold",
        "--nodes=2",
        "--ntasks-per-node=4",
        "--cpus-per-task=1",
        "--mem=3072M",
        "--gres=gpu:1",
        "--partition=batch",
        "--account=abc",
        "--qos=normal",
        "--reservation=xmml",
        "--constraint=ib",
    ]


def test_a_heterogeneous_job_states_the_resources_of_each_part():
    parts = [JobScript("a", "/a", "true", cores=2), JobScript("b", "/b", "true", nodes=2, walltime_s=60)]
    script = SLURM.render_together(parts)
    assert script.index("--time=1:00:00") < script.index("#SBATCH hetjob") < script.index("--time=0:01:00")
    assert script.count("#SBATCH hetjob") == 1
    assert script.index("--ntasks-per-node=2") < script.index("#SBATCH hetjob") < script.index("--nodes=2")
    assert "--het-group=1" in script


def test_steps_have_their_cores_and_gpus_to_themselves():
    steps = (NodeStep(0, "exec agent 0", cores=2), NodeStep(1, "exec agent 1", cores=1, gpus=1))
    script = SLURM.render(JobScript("a", "/a", steps=steps, nodes=2, cores=4, task_cores=2, gpus=1))
    assert "#SBATCH --ntasks-per-node=2\n#SBATCH --cpus-per-task=2\n" in script
    starts = [line.strip() for line in script.splitlines() if line.startswith("    srun ")]
    assert starts == [
        "srun ${XMML_HET_GROUP:+--het-group=$XMML_HET_GROUP} --nodes=1 --ntasks=1 "
        f'--nodelist="${{xmml_nodes[{node}]}}" --exact --cpus-per-task={cores} --mem=0 --kill-on-bad-exit=0 '
        f"--gres={gpus} bash -c 'exec agent {node}' </dev/null || {{ xmml_status=$?; :; exit $xmml_status; }}"
        for node, cores, gpus in ((0, 2, "none"), (1, 1, "gpu:1"))
    ]


def test_a_step_without_cores_of_its_own_needs_none_on_the_first_node():
    script = SLURM.render(JobScript("a", "/a", steps=(NodeStep(0, "first"), NodeStep(1, "second")), nodes=2))
    assert "\n    bash -c first </dev/null || " in script
    assert "--overlap --mem=0" in next(line for line in script.splitlines() if "second" in line)


@pytest.mark.parametrize("is_heterogeneous", [False, True])
def test_steps_are_not_held_to_the_tasks_of_their_job(is_heterogeneous):
    job = JobScript("a", "/a", steps=(NodeStep(0, "first"), NodeStep(1, "second")), nodes=2, cores=4)
    script = SLURM.render_together([job, replace(job, folder="/b")]) if is_heterogeneous else SLURM.render(job)
    begins = script[: script.index("srun ")]
    forget = next(line for line in reversed(begins.splitlines()) if line.startswith("unset SLURM_"))
    of_job = {"SLURM_NTASKS_PER_NODE": "3", "SLURM_CPUS_PER_TASK": "2", "SLURM_MEM_PER_CPU": "9", "SLURM_JOB_ID": "1"}
    told = subprocess.run(["bash", "-c", f"{forget}; env"], env=of_job, capture_output=True, text=True, check=True)
    assert [line for line in told.stdout.splitlines() if line.startswith("SLURM_")] == ["SLURM_JOB_ID=1"]


def test_a_job_in_an_allocation_starts_its_steps_on_nodes_that_are_known_and_ends_with_its_owner():
    job = JobScript("a", "/a", steps=(NodeStep(0, "first"), NodeStep(1, "second")), nodes=2, hosts=("n1", "n2"))
    script = WithinJob(SLURM).render(replace(job, owner=4711, component="1"))
    assert "xmml_nodes=(n1 n2)" in script
    assert "scontrol" not in script
    assert "export XMML_HET_GROUP=1" in script
    assert "tail -f --pid=4711" in script
    assert "\n    bash -c first </dev/null || " in script
    elsewhere = WithinJob(SLURM).render(replace(job, starts_on_first_node=False))
    assert "srun" in next(line for line in elsewhere.splitlines() if " first " in line)


PARTITIONS = """\
PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=01:00:00 \
MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=a[1-2] State=UP TotalCPUs=8 TotalNodes=2
PartitionName=debug AllowGroups=ALL AllowAccounts=abc,def AllowQos=ALL Default=NO QoS=N/A DefaultTime=NONE \
MaxNodes=1 MaxTime=00:30:00 MinNodes=0 MaxCPUsPerNode=2 Nodes=a1 State=UP TotalCPUs=4 TotalNodes=1
NODES|batch|4|2000|gpu:a100:2(S:0-1)|1|idle
NODES|batch|4|4000|(null)|1|down*
NODES|debug|4|2000|gpu:a100:2(S:0-1)|1|mixed
"""
ACCOUNTS = """\
ACCOUNT|abc|normal|normal,long|04:00:00|cpu=16,gres/gpu=1,mem=64G,node=4|
QOS|normal|08:00:00|cpu=64|cpu=32|cpu=128
"""


def test_limits_of_partitions_are_those_of_their_jobs_and_nodes() -> None:
    limits = SLURM.parse_limits(CommandResult(0, PARTITIONS, ""))
    assert limits.default == "batch"
    batch, debug = limits.partitions
    assert (batch.default_s, batch.longest_s) == (3600.0, 86_400.0)
    assert (debug.default_s, debug.longest_s) == (1800.0, 1800.0), "without a default it is the longest"
    assert (batch.nodes, batch.node_cores, batch.node_memory_bytes, batch.node_gpus) == (2, 4, 4000 * 2**20, 2)
    assert (debug.nodes, debug.node_cores, debug.accounts) == (1, 2, ("abc", "def"))
    assert (batch.working_nodes, debug.working_nodes) == (1, 1)
    assert SLURM.parse_limits(CommandResult(1, "", "Unable to contact slurm controller")) == QueueLimits()


def test_limits_of_accounts_and_qos_are_the_least_of_all_that_hold_for_a_job() -> None:
    limits = SLURM.parse_limits(CommandResult(0, PARTITIONS + ACCOUNTS, ""))
    account, qos = limits.others
    assert (account.name, account.longest_s, account.cores, account.gpus) == ("abc", 14_400.0, 16, 1)
    assert (account.memory_bytes, account.nodes, account.qos) == (2**36, 4, ("normal", "long"))
    assert (qos.name, qos.longest_s, qos.cores) == ("normal", 28_800.0, 32)
    assert (limits.default_account, limits.default_qos) == ("abc", "normal")


@pytest.mark.parametrize(
    ("reason", "never", "perhaps"),
    [
        ("PartitionTimeLimit", True, False),
        ("QOSMaxGRESPerJob", True, False),
        ("AssocMaxWallDurationPerJobLimit", True, False),
        ("QOSMinCpuNotSatisfied", True, False),
        ("AssocGrpCpuLimit", False, True),
        ("QOSMaxCpuPerUserLimit", False, True),
        ("PartitionNodeLimit", False, True),  # also said where nodes are down
        ("AssociationJobLimit", False, False),  # others of the account end, and it starts
        ("ReqNodeNotAvail, UnavailableNodes:a1", False, False),
        ("Resources", False, False),
        ("Priority", False, False),
    ],
)
def test_a_reason_says_whether_a_job_never_starts_or_perhaps(reason: str, never: bool, perhaps: bool) -> None:
    status = SLURM.parse_status(CommandResult(0, f"7|PENDING|{reason}|N/A|\n", ""), ["7"])["7"]
    assert (status.can_never_run, status.may_never_run) == (never, perhaps)


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("Resources", True),
        ("ReqNodeNotAvail, UnavailableNodes:a1", True),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions", True),
        ("Priority", False),
        ("AssocGrpCpuLimit", False),
    ],
)
def test_a_reason_says_whether_a_job_waits_for_nodes(reason: str, waits: bool) -> None:
    status = SLURM.parse_status(CommandResult(0, f"7|PENDING|{reason}|N/A|\n", ""), ["7"])["7"]
    assert status.waits_for_nodes == waits
