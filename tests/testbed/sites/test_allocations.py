"""A run launched in a batch job: the nodes of the job are its machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import printed
import pytest
from gates import awaits
from processes import processes, processor_s
from rings import facts_of, hosts, planned_hosts, write_ring
from testbed import control_groups
from testbed.files import INSTALLED, REPOSITORY
from waiting import RUN_LIMIT_S, complete_lines, wait_until

if TYPE_CHECKING:
    from testbed import Bed
    from testbed.bed import Cluster
    from wan import Machine

ALPHA = ["alpha1", "alpha2"]
#: Programs that fill two nodes with three cores each: one with threads on each, and an MPI program on both.
ON_BOTH = {"a": 'run:threads="2"', "b": 'run:threads="2"', "ranks": 'run:mpi="2"'}
#: A run that is killed leaves the file of a lease for a while, which is shorter than usual here.
LEASED = "XMML_SITE_LEASE_S=30 xmml-run"
TWO_NODES = "--nodes=2 --ntasks-per-node=3"


#: Computes for a second, and says on which processors it was meanwhile.
COMPUTING = """import json, os, socket, sys, time
ran_on = set()
while time.process_time() < 1:
    with open("/proc/self/stat") as file:
        ran_on.add(file.read().rpartition(")")[2].split()[36])
print("ran on", *ran_on, file=sys.stderr)
"""


class Home:
    """The home directory of a user of alpha, from which jobs are submitted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.path = cluster.home()
        self.run_folder = self.path / "run"

    def add(self, folder: Path) -> None:
        """Copy a folder there, and give it to the user."""
        target = self.path / folder.name
        shutil.copytree(folder, target)
        self.give(target)

    def write(self, name: str, text: str) -> None:
        """Write a file there."""
        (self.path / name).write_text(text)
        self.give(self.path / name)

    def give(self, path: Path) -> None:
        """Let the user own what the test has made."""
        number = self.cluster.users[0].number
        for each in (path, *path.rglob("*")):
            os.chown(each, number, number, follow_symlinks=False)

    def ring(self, programs: Mapping[str, str], pause: float = 0.0) -> None:
        """Make a model of programs there, `ring/model.xmml`."""
        write_ring(self.path / "ring", programs, pause)
        self.give(self.path / "ring")

    def type(self, command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Type a command on the login node, with xMML on the search path."""
        line = f"export PATH={INSTALLED}/bin:$PATH; {command}"
        return self.cluster.run(line, check=check, timeout_s=RUN_LIMIT_S)

    def submit(self, options: str, script: str) -> str:
        """Submit a batch job, its output goes to `out`; return its id."""
        self.write("job.sh", f"#!/bin/bash\n{script}\n")
        return self.type(f"sbatch --parsable -o out {options} job.sh", check=True).stdout.strip()

    def batch(self, options: str, script: str) -> str:
        """Carry out a batch job; return what it has written, with the exit status of its last command."""
        self.write("job.sh", f"#!/bin/bash\n{script}\necho exit status $?\n")
        self.type(f"sbatch --wait -o out {options} job.sh", check=True)
        return self.said()

    def said(self) -> str:
        """Return what the last job has written."""
        return (self.path / "out").read_text()

    def events(self) -> list[dict[str, Any]]:
        """Return the events of the run."""
        file = self.run_folder / "events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_until_joined(self, number: int) -> None:
        """Wait until so many instances have joined the run."""
        wait_until(lambda: sum(each["what"] == "joined" for each in self.events()) >= number, self.said, RUN_LIMIT_S)


@pytest.fixture
def home(firewalled: Bed) -> Iterator[Home]:
    """The home directory of a user of alpha; what a test leaves there, but for files, is an error."""
    made = Home(firewalled.cluster("alpha"))
    kept = {path.name for path in made.path.iterdir()}
    yield made
    for path in made.path.iterdir():
        if path.name not in kept:
            wait_until(lambda path=path: is_removed(path), f"{path} is still written to")


def is_removed(path: Path) -> bool:
    """Remove a file or folder; return whether it is gone: what is just ending may still write."""
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return not path.exists()


def test_instances_run_on_all_nodes_of_the_job_and_nothing_is_submitted(home: Home) -> None:
    home.ring({"a": "", "b": "", "c": "", "wide": 'run:threads="2"', "other": 'run:threads="2"'})
    said = home.batch("--nodes=2 --ntasks-per-node=4", "xmml-run ring/model.xmml -o run")
    assert "exit status 0" in said, said
    assert re.search(r"job \d+ has 2 nodes \(alpha1, alpha2\), each with 4 cores and", said), said
    assert hosts(home.run_folder) == planned_hosts(home.run_folder, ALPHA)
    assert {host for own in hosts(home.run_folder).values() for host in own} == set(ALPHA)
    jobs = {each["SLURM_JOB_ID"] for facts in facts_of(home.run_folder).values() for each in facts}
    assert len(jobs) == 1
    assert f"JobId={int(jobs.pop()) + 1} " not in home.type("scontrol show job").stdout, "another job was submitted"
    assert not (home.path / "xmml").exists(), "the model was copied"
    assert not (home.run_folder / ".allocation").exists()


def test_mpi_threads_and_gpus_are_placed_in_a_job_of_two_nodes(home: Home) -> None:
    programs = {"one": 'run:gpus="1"', "plain": "", "ranks": 'run:mpi="3" run:threads="2" run:gpus="1"'}
    home.ring(programs)
    options = "--nodes=2 --ntasks-per-node=2 --cpus-per-task=2 --gres=gpu:2 --mem-per-cpu=300M"
    said = home.batch(options, "xmml-run ring/model.xmml -o run")
    assert "exit status 0" in said, said
    facts = facts_of(home.run_folder)
    assert hosts(home.run_folder) == planned_hosts(home.run_folder, ALPHA)
    assert {each["host"] for each in facts["ranks"]} == set(ALPHA)
    threads = {name: {each["OMP_NUM_THREADS"] for each in own} for name, own in facts.items()}
    assert threads == {"one": {"1"}, "plain": {"1"}, "ranks": {"2"}}
    taken = sorted(
        (each["host"], gpu)
        for own in facts.values()
        for each in own
        for gpu in (each["CUDA_VISIBLE_DEVICES"] or "").split(",")
        if gpu
    )
    assert taken == [("alpha1", "0"), ("alpha1", "1"), ("alpha2", "0"), ("alpha2", "1")]


def test_the_script_of_the_documentation_has_both_nodes_compute_the_canals(home: Home) -> None:
    home.add(REPOSITORY / "workflows" / "canal")
    shutil.rmtree(home.path / "canal/build", ignore_errors=True)
    home.write("canal/canal.sh", printed.files("allocations.md")["canal.sh"])
    home.type("cd canal && sbatch -o ../out canal.sh", check=True)
    busy_s: dict[str, dict[int, float]] = {node.name: {} for node in home.cluster.placed.nodes}

    def is_over() -> bool:
        for node in home.cluster.placed.nodes:
            busy_s[node.name] |= sections_on(node)
        return not home.type("squeue -h").stdout

    wait_until(is_over, "the job does not end", RUN_LIMIT_S)
    said = home.said()
    assert re.search(r"canal: 12 instances ran .* and exchanged", said), said
    (run,) = (home.path / "canal/runs").iterdir()
    assert (run / "instances/picture/work/levels.png").exists()
    joined = [each for each in complete_lines(run / "events.jsonl") if each["what"] == "joined"]
    host = {each["instance"]: each["host"] for each in joined}
    sections = Counter(each["host"] for each in joined if each["language"] == "c++")
    assert {name: len(own) for name, own in busy_s.items()} == sections
    assert set(sections) == set(ALPHA)
    assert all(seconds > 0 for own in busy_s.values() for seconds in own.values()), busy_s
    rows = json.loads(home.type(f"xmml methods canal/runs/{run.name} --json", check=True).stdout)["conduits"]
    ends = [re.findall(r"(\w+)\.\w+", row["name"]) for row in rows]
    ways = {(row["method"], host[one] == host[other]) for row, (one, other) in zip(rows, ends, strict=True)}
    assert ways == {("shm", True), ("tcp", False)}


def sections_on(node: Machine) -> dict[int, float]:
    """Return the processor time of each section of the canals on a machine, by its process, as /proc shows it [s]."""
    found = {}
    for entry in processes():
        with contextlib.suppress(OSError):  # it has just ended
            is_there = (entry / "ns/uts").readlink() == Path(f"/proc/{node.pid}/ns/uts").readlink()
            if is_there and (entry / "comm").read_text() == "section\n":
                found[int(entry.name)] = processor_s(int(entry.name))
    return found


def test_programs_are_bound_to_the_cores_that_the_job_has(bound_bed: Bed) -> None:
    home = Home(bound_bed.cluster("alpha"))
    home.ring({"plain": "", "ranks": 'run:mpi="1"'})
    for name in ("plain", "ranks"):
        program = home.path / f"ring/{name}.py"
        program.write_text(program.read_text().replace("import json, os, socket, time", COMPUTING))
    said = home.batch("--nodes=2 --ntasks-per-node=1", "xmml-run ring/model.xmml -o run")
    assert "exit status 0" in said, said
    facts = {name: own[0] for name, own in facts_of(home.run_folder).items()}
    assert {each["host"]: each["cpus"] for each in facts.values()} == {"alpha1": [0], "alpha2": [1]}
    ran_on = {each["host"]: (home.run_folder / f"instances/{name}/stderr").read_text() for name, each in facts.items()}
    assert ran_on == {"alpha1": "ran on 0\n", "alpha2": "ran on 1\n"}
    lines = home.type("xmml status run", check=True).stdout.splitlines()
    (plain,) = [line for line in lines if line.startswith("  plain ")]
    assert f", on CPU {facts['plain']['cpus'][0]}" in plain, lines


@pytest.mark.parametrize(
    ("program", "attributes", "why"),
    [
        ("plain", "", "it was killed by SIGKILL .*more than the 300 MiB of memory"),
        ("ranks", 'run:mpi="1"', "(oom-kill event|Out Of Memory)"),  # as srun and slurmstepd say, in any order
    ],
)
def test_a_program_that_takes_more_memory_than_its_job_has_is_named(
    bound_bed: Bed, program: str, attributes: str, why: str
) -> None:
    if reason := control_groups.why_not():
        pytest.skip(reason)
    home = Home(bound_bed.cluster("alpha"))
    home.ring({"a": "", "b": attributes})
    file = home.path / f"ring/{program}.py"
    greedy = "os.write\nif '/instances/b/' in os.getcwd():\n    taken = bytearray(400_000_000)\nos.write("
    file.write_text(file.read_text().replace("os.write(", greedy))
    said = home.batch("--nodes=2 --ntasks-per-node=1 --mem=300", "xmml-run ring/model.xmml -o run")
    assert "exit status 4" in said, said
    assert re.search(f"b failed: .*{why}", said), said


def test_a_run_that_salloc_starts_on_the_login_node_uses_the_nodes(home: Home) -> None:
    home.ring(ON_BOTH)
    done = home.type(f"salloc {TWO_NODES} xmml-run ring/model.xmml -o run")
    assert done.returncode == 0, done.stderr
    assert hosts(home.run_folder) == planned_hosts(home.run_folder, ALPHA)


def test_nodes_of_different_size_and_components_of_a_job_are_used(home: Home) -> None:
    home.ring({"a": 'run:threads="2"', "b": 'run:mpi="2"', "c": 'run:threads="2"'})
    for options in ("--ntasks=6", "-N1 -n4 : -N1 -n2"):
        said = home.batch(options, "rm -rf run; xmml-run ring/model.xmml -o run")
        assert "exit status 0" in said, said
        assert "the node alpha1 with 4 cores" in said, said
        assert "the node alpha2 with 2 cores" in said, said
        assert {host for own in hosts(home.run_folder).values() for host in own} == set(ALPHA)


def test_a_job_that_is_too_small_is_refused_with_the_lines_that_would_do(home: Home) -> None:
    home.ring({"a": "", "b": "", "c": 'run:threads="2" memory="600 MB"'})
    said = home.batch("--nodes=2 --ntasks-per-node=1 --mem=700", "xmml-run ring/model.xmml -o run")
    assert "exit status 3" in said, said
    assert '"c" can run at no site' in said, said
    lines = re.findall(r"^ *#SBATCH (--.*)$", said, re.MULTILINE)
    said = home.batch(" ".join(lines), "xmml-run ring/model.xmml -o run")
    assert "exit status 0" in said, said


def test_programs_share_the_cores_of_a_job_of_one_node_that_has_too_few(home: Home) -> None:
    home.ring({"a": "", "b": ""})
    said = home.batch("--ntasks=1", "xmml-run ring/model.xmml -o run")
    assert "exit status 0" in said, said
    assert "has 1 core of the 2 that are wanted at the same time: programs share cores" in said, said
    assert "#SBATCH --ntasks-per-node=2" in said, said


def test_a_node_that_does_not_see_the_folder_is_named(home: Home) -> None:
    home.ring({"a": 'run:threads="2"', "b": 'run:threads="2"'})
    move = "cp -r ring /tmp/ring; cd /tmp/ring; "
    said = home.batch("--nodes=2 --ntasks-per-node=2", f"{move} xmml-run model.xmml; s=$?; rm -r /tmp/ring; (exit $s)")
    assert "exit status 5" in said, said
    assert re.search(r"alpha2 does not see the folder of the run, /tmp/ring/runs/\S+: all nodes of a job", said), said
    said = home.batch(
        "--nodes=2 --ntasks-per-node=2", f"{move} xmml-run model.xmml -o ~/run; s=$?; rm -r /tmp/ring; (exit $s)"
    )
    assert "exit status 5" in said, said
    assert "alpha2 does not see the folder of the model, /tmp/ring: all nodes of a job" in said, said


def test_copies_that_srun_starts_say_once_what_to_do(home: Home) -> None:
    home.ring({"a": "", "b": ""})
    said = home.batch("--nodes=2 --ntasks-per-node=2", "srun xmml-run ring/model.xmml -o run")
    assert "exit status 2" in said, said
    assert said.count("it was started 4 times, by srun or mpirun: start it once") == 1, said
    assert not home.run_folder.exists()


def test_runs_in_steps_of_a_job_have_the_cores_and_gpus_of_their_steps(home: Home) -> None:
    home.ring({"a": "", "b": 'run:mpi="1" run:gpus="1"', "c": 'run:mpi="2"'})
    step = "srun -N1 -n1 -c4 --exact --gres=gpu:1 xmml-run ring/model.xmml -o run"
    said = home.batch("--nodes=2 --ntasks-per-node=4 --gres=gpu:1", f"{step}1 & {step}2 & wait -n && wait -n")
    assert "exit status 0" in said, said
    for run in ("run1", "run2"):
        assert len({host for own in hosts(home.path / run).values() for host in own}) == 1, "one node each"
        assert facts_of(home.path / run)["b"][0]["CUDA_VISIBLE_DEVICES"] == "0"


def test_a_second_run_in_the_same_job_leaves_its_nodes_to_the_first(home: Home) -> None:
    home.ring({"a": "", "b": ""})
    second_is_over = Path("/home", home.cluster.users[0].name, "second-is-over")
    held = f"if '/run/' in os.getcwd():\n                {awaits(second_is_over)}\n            for step"
    home.write("ring/plain.py", (home.path / "ring/plain.py").read_text().replace("for step", held))
    first = "xmml-run ring/model.xmml -o run & until grep -q joined run/events.jsonl; do sleep 0.1; done 2>/dev/null"
    second = f"xmml-run ring/model.xmml -o run2; s=$?; touch {second_is_over}; wait $! && (exit $s)"
    said = home.batch("--nodes=2 --ntasks-per-node=2", f"{first}; {second}")
    assert "exit status 0" in said, said
    assert re.search(r"another run has the nodes of job \d+; this one runs on this machine alone", said), said


# --- the end of a run -------------------------------------------------------------------------------------------------


def test_a_cancelled_job_leaves_logs_and_says_so(home: Home) -> None:
    home.ring(ON_BOTH, pause=5.0)
    job = home.submit(TWO_NODES, "xmml-run ring/model.xmml -o run")
    home.wait_until_joined(3)
    wait_until(lambda: numbers_of(home) == ALL_RANKS, home.said, RUN_LIMIT_S)
    home.type(f"scancel {job}")
    wait_until(lambda: "the run was interrupted" in home.said(), home.said, RUN_LIMIT_S)
    assert re.search(rf"interrupted: stopping the instances \(job {job}, or this process, was told to end", home.said())
    assert numbers_of(home) == ALL_RANKS


@pytest.mark.parametrize(("signal", "status"), [("INT", 130), ("KILL", 137)])
def test_nothing_runs_on_any_node_when_a_run_ends_before_its_job(home: Home, signal: str, status: int) -> None:
    home.ring(ON_BOTH, pause=5.0)
    joined, said = "$(grep -c joined run/events.jsonl)", "$(cat run/instances/*/stdout | grep -c '^{')"
    wait = f"until [ {joined} = 3 ] && [ {said} = 4 ]; do sleep 0.2; done 2>/dev/null"
    line = f"{LEASED} ring/model.xmml -o run & {wait}; kill -{signal} $!; wait $!; echo exit status $?"
    home.write("job.sh", f"{line} > ending; mv ending ended\n")
    job = home.type(f"salloc --no-shell {TWO_NODES} 2>&1 | grep -o '[0-9]*' | head -1", check=True).stdout.strip()
    nodes = f"SLURM_JOB_ID={job} SLURM_JOB_NODELIST=alpha[1-2] SLURM_JOB_NUM_NODES=2"
    try:
        home.type(f"{nodes} bash ./job.sh > out 2>&1 &")
        wait_until((home.path / "ended").exists, home.said, RUN_LIMIT_S)
        assert (home.path / "ended").read_text() == f"exit status {status}\n"
        wait_until(lambda: not steps_of(home, job), lambda: steps_of(home, job), RUN_LIMIT_S)
    finally:
        home.type(f"scancel {job}")
    assert numbers_of(home) == ALL_RANKS


def test_a_run_in_an_allocation_is_not_resumed_outside_of_it(home: Home) -> None:
    home.ring({"a": "", "b": ""}, pause=5.0)
    wait = "until [ $(grep -c joined run/events.jsonl) = 2 ]; do sleep 0.2; done 2>/dev/null"
    said = home.batch("--ntasks=2", f"{LEASED} ring/model.xmml -o run & {wait}; kill -KILL $!; wait $!")
    assert "exit status 137" in said, said
    told = home.type("xmml-run --resume run")
    assert told.returncode == 2, told.stderr
    assert re.search(r"run ran on the nodes of job \d+, and only in that job it can be resumed", told.stderr)


#: How many ranks each instance has on two nodes.
ALL_RANKS = {"a": 1, "b": 1, "ranks": 2}


def numbers_of(home: Home) -> dict[str, int]:
    """Return how many ranks of each instance have said where they are."""
    return {name: len(facts) for name, facts in facts_of(home.run_folder).items()}


def steps_of(home: Home, job: str) -> str:
    """The steps of a job that still run."""
    return home.type(f"squeue -h -s -j {job} -o %i | grep -v extern").stdout


# --- with a file of sites ---------------------------------------------------------------------------------------------


def test_a_site_of_the_file_that_is_the_cluster_of_the_job_uses_its_nodes(home: Home) -> None:
    home.ring({"a": "", "b": 'run:mpi="2"'})
    sites = '[site.alpha]\nssh = "alpha"\nscheduler = "slurm"\ncores = 4\nnodes = 2\n'
    home.write("sites.toml", f'{sites}python = "{INSTALLED}/bin/python"\nenv = {{ FROM_SITES = "yes" }}\n')
    said = home.batch("--nodes=2 --ntasks-per-node=2", "xmml-run ring/model.xmml --sites sites.toml -o run")
    assert "exit status 0" in said, said
    assert re.search(r"site alpha: job \d+ has 2 nodes .*; nothing is submitted there, unless you say --no-allo", said)
    assert hosts(home.run_folder) == planned_hosts(home.run_folder, ALPHA)


@pytest.fixture
def logs_in_from_alpha(firewalled: Bed) -> Iterator[None]:
    """The user of alpha logs in at the other sites, too."""
    home, folder = Home(firewalled.cluster("alpha")), firewalled.folder / "ssh"
    config = (folder / "config").read_text()
    for site in firewalled.sites.values():
        config = config.replace(f"  HostName {site.name}\n", f"  HostName {site.placed.address}\n")
    files = {"config": config, **{name: (folder / name).read_text() for name in ("id_ed25519", "known_hosts")}}
    for name, text in files.items():
        home.write(f".ssh/{name}", text)
        (home.path / ".ssh" / name).chmod(0o600)
    yield
    for name in files:
        (home.path / ".ssh" / name).unlink()


def test_a_site_beside_the_nodes_of_the_job_is_reached_from_there(
    home: Home, firewalled: Bed, logs_in_from_alpha: None
) -> None:
    home.ring({"a": 'run:threads="2"', "b": 'run:threads="2"', "far": ""})
    home.write("sites.toml", firewalled.sites_toml("alpha", "gamma"))
    command = "xmml-run ring/model.xmml --sites sites.toml --place far=gamma -o run"
    done = home.type(f"salloc --nodes=2 --ntasks-per-node=1 --cpus-per-task=3 {command}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: own[0] for name, own in hosts(home.run_folder).items()} == {
        "a": "alpha1",
        "b": "alpha2",
        "far": "gamma-login",
    }


def test_mpirun_has_all_cores_of_a_job_that_has_few_tasks(home: Home) -> None:
    home.ring({"a": 'run:mpi="6"', "b": 'run:threads="2"'})
    home.write("sites.toml", '[site.alpha]\nscheduler = "slurm"\ncores = 4\nmpi = "mpirun"\n')
    options = "--nodes=2 --ntasks-per-node=1 --cpus-per-task=4"
    said = home.batch(options, "xmml-run ring/model.xmml --sites sites.toml -o run")
    assert "exit status 0" in said, said
    assert hosts(home.run_folder) == planned_hosts(home.run_folder, ALPHA)
    assert {each["host"] for each in facts_of(home.run_folder)["a"]} == set(ALPHA)


def test_jobs_are_submitted_from_a_job_if_its_nodes_are_not_to_be_used(home: Home) -> None:
    home.ring({"a": "", "b": ""})
    sites = f'[site.alpha]\nscheduler = "slurm"\ncores = 4\npython = "{INSTALLED}/bin/python"\n'
    home.write("sites.toml", f'{sites}[site.alpha.relay]\nhost = "alpha1"\n')
    command = "xmml-run ring/model.xmml --sites sites.toml --no-allocation -o run"
    said = home.batch("--ntasks=1 --nodelist=alpha1", command)
    assert "exit status 0" in said, said
    assert re.search(r"alpha: submitted as job \d+", said), said
