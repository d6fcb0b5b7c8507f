"""What happens inside a job: every program on the node that the plan says, with its cores, memory and GPUs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import printed
import pytest
from commands import BIN
from rings import facts_of, hosts, planned_hosts, write_ring
from waiting import RUN_LIMIT_S, wait_until

if TYPE_CHECKING:
    from testbed import Bed


def launch(
    bed: Bed, model: Path, *words: str, places: Mapping[str, str], sites: str | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a model from the laptop; the run's folder is `run` beside that of the model."""
    file = model.parent.parent / "sites.toml"
    file.write_text(sites or bed.sites_toml())
    command = [BIN / "xmml-run", model, "--sites", file, "-o", model.parent.parent / "run", *words]
    command += [f"--place={name}={site}" for name, site in places.items()]
    return bed.laptop.run(command, cwd=model.parent, check=check, timeout_s=RUN_LIMIT_S)


def methods(bed: Bed, run: Path) -> dict[str, str]:
    """By which method the messages of each conduit went."""
    told = json.loads(bed.laptop.run([BIN / "xmml", "status", "--json", run]).stdout)
    return {each["name"]: each["method"] for each in told["conduits"]}


@pytest.fixture
def bed(firewalled: Bed) -> Bed:
    """The test bed; what a run leaves there, but for staged files, is an error."""
    return firewalled


ALPHA = ["alpha1", "alpha2"]
#: How long a job may take to leave its queue; an agent to which nobody speaks ends it after a minute.
LEAVES_WITHIN_S = 45.0


def test_instances_run_on_the_nodes_that_the_plan_says_and_speak_over_shm_and_tcp(bed: Bed, tmp_path: Path) -> None:
    programs = {"a": "", "b": "", "c": "", "wide": 'run:threads="2"', "other": 'run:threads="2"'}
    model = write_ring(tmp_path / "ring", programs)
    launch(bed, model, places=dict.fromkeys(programs, "alpha"))
    run = tmp_path / "run"
    assert hosts(run) == planned_hosts(run, ALPHA)
    assert set(hosts(run)["a"] + hosts(run)["wide"]) == set(ALPHA)
    threads = {name: facts[0]["OMP_NUM_THREADS"] for name, facts in facts_of(run).items()}
    assert threads == {"a": "1", "b": "1", "c": "1", "wide": "2", "other": "2"}
    where = {name: each[0] for name, each in hosts(run).items()}
    for conduit, method in methods(bed, run).items():
        one, other = re.findall(r"(\w+)\.", conduit)
        assert method == ("shm" if where[one] == where[other] else "tcp"), conduit


def test_coupled_mpi_programs_of_one_job_run_at_the_same_time_beside_others(bed: Bed, tmp_path: Path) -> None:
    programs = {"flow": 'run:mpi="3"', "heat": 'run:mpi="2" run:threads="2"', "plain": ""}
    model = write_ring(tmp_path / "ring", programs)
    launch(bed, model, places=dict.fromkeys(programs, "alpha"))
    run = tmp_path / "run"
    assert hosts(run) == planned_hosts(run, ALPHA)
    cores = {name: {each["SLURM_CPUS_PER_TASK"] for each in facts} for name, facts in facts_of(run).items()}
    assert cores == {"flow": {"1"}, "heat": {"2"}, "plain": {"1"}}


def test_the_ranks_of_an_mpi_program_are_on_the_nodes_of_the_plan_also_if_these_have_different_numbers(
    bed: Bed, tmp_path: Path
) -> None:
    programs = {"flow": 'run:mpi="5"', "plain": ""}
    model = write_ring(tmp_path / "ring", programs)
    launch(bed, model, places=dict.fromkeys(programs, "alpha"))
    run = tmp_path / "run"
    assert hosts(run) == planned_hosts(run, ALPHA)
    assert len(set(hosts(run)["flow"])) == 2


def test_mpi_programs_of_a_heterogeneous_job_run_in_their_parts(bed: Bed, tmp_path: Path) -> None:
    sites = f'{bed.sites_toml("alpha")}[site.short]\nlike = "alpha"\npartition = "short"\nwalltime = "4 min"\n'
    programs = {"flow": 'run:mpi="2"', "heat": 'run:mpi="1"'}
    model = write_ring(tmp_path / "ring", programs)
    with bed.cluster("alpha").taken("alpha1", cores=3):
        launch(bed, model, places={"flow": "alpha", "heat": "short"}, sites=sites)
    facts = facts_of(tmp_path / "run")
    assert {each["host"] for each in facts["heat"]} == {"alpha1"}, "the only node of its partition"
    assert {each["host"] for each in facts["flow"]} == {"alpha2"}, "the only node with room for both ranks"
    ids = {line["id"] for line in journal(tmp_path / "run") if line["what"] == "submitted"}
    assert len(ids) == 1, "one heterogeneous job"


def journal(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]


def test_each_program_sees_its_own_gpus_only(bed: Bed, tmp_path: Path) -> None:
    programs = {"one": 'run:gpus="1"', "other": 'run:gpus="1"', "none": "", "ranks": 'run:mpi="2" run:gpus="1"'}
    model = write_ring(tmp_path / "ring", programs)
    launch(bed, model, places=dict.fromkeys(programs, "alpha"))
    taken = [
        (each["host"], gpu)
        for facts in facts_of(tmp_path / "run").values()
        for each in facts
        for gpu in (each["CUDA_VISIBLE_DEVICES"] or "").split(",")
        if gpu
    ]
    assert sorted(taken) == [("alpha1", "0"), ("alpha1", "1"), ("alpha2", "0"), ("alpha2", "1")]


#: Where the programs of a model with ranks, threads and GPUs are, by site.
PLACES = {
    "in one job": {"flow": "alpha", "wide": "alpha", "fast": "alpha"},
    "in two parts of a cluster": {"flow": "alpha", "wide": "short", "fast": "short"},
    "over two clusters": {"flow": "beta", "wide": "alpha", "fast": "alpha"},
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
def test_ranks_threads_and_gpus_are_where_the_plan_says(bed: Bed, tmp_path: Path, places: dict[str, str]) -> None:
    sites = f'{bed.sites_toml()}\n[site.short]\nlike = "alpha"\npartition = "short"\nwalltime = "4 min"\n'
    programs = {"flow": 'run:mpi="2" run:threads="2"', "wide": 'run:threads="2"', "fast": 'run:gpus="1"'}
    model = write_ring(tmp_path / "ring", programs)
    # Slurm chooses nodes for one part after the other: the first must not take the only node of the second.
    taken = bed.cluster("alpha").taken("alpha1", cores=1) if "short" in places.values() else nullcontext()
    with taken:
        launch(bed, model, places=places, sites=sites)
    run = tmp_path / "run"
    facts = facts_of(run)
    told = {name: [each["OMP_NUM_THREADS"] for each in ranks] for name, ranks in facts.items()}
    assert told == {"flow": ["2", "2"], "wide": ["2"], "fast": ["1"]}
    gpus = {name: {each["CUDA_VISIBLE_DEVICES"] or "" for each in ranks} for name, ranks in facts.items()}
    assert (gpus["flow"], gpus["wide"]) == ({""}, {""})
    assert gpus["fast"] in ({"0"}, {"1"})
    planned = planned_hosts(run, ["node 0", "node 1"])
    for name, ranks in hosts(run).items():
        cluster = places[name].replace("short", "alpha")
        assert {host[:-1] for host in ranks} == {cluster}
        assert [ranks.index(host) for host in ranks] == [planned[name].index(node) for node in planned[name]]
    jobs = [line["job"] for line in journal(run) if line["what"] == "submitted"]
    assert len(jobs) == len(set(places.values()))


#: Programs, what Slurm is to say of the job (nodes, tasks and cores of a task on each), and the memory of a node [MB].
SHAPES = {
    "threads beside one core": ({"a": 'run:threads="4"', "b": ""}, (2, 4, 1), None),
    "ranks of two threads": ({"a": 'run:mpi="2" run:threads="2"', "b": 'run:mpi="1" run:threads="2"'}, (2, 2, 2), None),
    "few cores and much memory": ({"a": 'memory="1572.864 MB"', "b": 'memory="629.1456 MB"'}, (2, 1, 1), 1500),
    "all on one node": ({"a": 'run:threads="2" memory="104.8576 MB"', "b": 'memory="104.8576 MB"'}, (1, 3, 1), 200),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_job_asks_slurm_for_what_its_fullest_node_needs(bed: Bed, tmp_path: Path, shape: str) -> None:
    programs, (nodes, tasks, task_cores), memory = SHAPES[shape]
    model = write_ring(tmp_path / "ring", programs)
    launch(bed, model, places=dict.fromkeys(programs, "alpha"))
    run = tmp_path / "run"
    (job,) = {each["SLURM_JOB_ID"] for facts in facts_of(run).values() for each in facts}
    told = bed.site("alpha").run(f"scontrol show job {job}").stdout
    assert f"NumNodes={nodes} " in told
    assert f"CPUs/Task={task_cores} " in told
    assert f"NumTasks={nodes * tasks} " in told
    if memory is not None:
        assert f"MinMemoryNode={memory}M" in told
    assert hosts(run) == planned_hosts(run, sorted({host for own in hosts(run).values() for host in own}))


def test_a_second_node_that_is_lost_ends_the_run_with_its_name(own_bed: Bed, tmp_path: Path) -> None:
    programs = {"a": 'run:threads="4"', "b": 'run:threads="4"'}
    model = write_ring(tmp_path / "ring", programs, pause=5.0)
    file = tmp_path / "sites.toml"
    file.write_text(own_bed.sites_toml())
    command = [BIN / "xmml-run", model, "--sites", file, "-o", tmp_path / "run", "--place=a=alpha", "--place=b=alpha"]
    run = own_bed.laptop.start(command, stderr=subprocess.PIPE, text=True)
    joined = tmp_path / "run/events.jsonl"
    wait_until(
        lambda: joined.exists() and joined.read_text().count('"joined"') == 2, lambda: "not both join", RUN_LIMIT_S
    )
    own_bed.site("alpha").placed.node(2).crash()
    _, said = run.communicate(timeout=RUN_LIMIT_S)
    assert run.returncode == 5, said
    assert re.search(r"the job of alpha is over: its (node|agent) .* \(alpha2\)", said), said


WAITING = {"a": 'run:threads="4"', "b": 'run:threads="4"', "c": ""}


def start_waiting(bed: Bed, folder: Path) -> subprocess.Popen[str]:
    """Start a run whose job on both nodes of alpha waits for beta."""
    file = folder / "sites.toml"
    file.write_text(bed.sites_toml())
    command = [BIN / "xmml-run", write_ring(folder / "ring", WAITING), "--sites", file, "-o", folder / "run"]
    command += ["--place=a=alpha", "--place=b=alpha", "--place=c=beta"]
    run = bed.laptop.start(command, stderr=subprocess.PIPE, text=True)
    assert run.stderr is not None
    assert any("alpha: ready on alpha1, alpha2" in line for line in run.stderr)
    return run


def second_agent(bed: Bed) -> dict[str, Any]:
    """What the agent on the second node of alpha has said of itself."""
    file = next(bed.site("alpha").home().glob("xmml/runs/*/jobs/alpha.1/1/reports"))
    told: dict[str, Any] = json.loads(file.read_text().splitlines()[0])
    return told


def test_a_job_that_loses_an_agent_while_it_waits_leaves_its_queue(own_bed: Bed, tmp_path: Path) -> None:
    alpha, node = own_bed.site("alpha"), own_bed.machines["alpha2"]
    with own_bed.cluster("beta").occupied():
        run = start_waiting(own_bed, tmp_path)
        agent = second_agent(own_bed)
        connections = ["ss", "-Htn", "state", "established", f"sport = :{agent['port']}"]
        wait_until(lambda: node.run(connections, cwd="/").stdout, "nobody watches the agent")
        node.run(["kill", "-KILL", str(agent["pid"])], cwd="/")
        wait_until(lambda: not alpha.run("squeue -h").stdout, "its first node keeps the job", LEAVES_WITHIN_S)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=RUN_LIMIT_S)
    assert run.returncode == 130, said


def test_a_resumed_run_submits_a_job_anew_that_has_lost_an_agent_meanwhile(own_bed: Bed, tmp_path: Path) -> None:
    alpha = own_bed.site("alpha")
    with own_bed.cluster("beta").occupied() as end:
        run = start_waiting(own_bed, tmp_path)
        run.kill()
        run.communicate()
        agent = second_agent(own_bed)
        own_bed.machines["alpha2"].run(["kill", "-KILL", str(agent["pid"])], cwd="/")
        reports = next(alpha.home().glob("xmml/runs/*/jobs/alpha.1/1/reports"))
        wait_until(lambda: '"failed"' in reports.read_text(), "the script does not say that its step has ended")
        resume = [BIN / "xmml-run", "--resume", tmp_path / "run"]
        resumed = own_bed.laptop.start(resume, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: not alpha.run("squeue -h").stdout, "its first node keeps the job", LEAVES_WITHIN_S)
        end()
        _, said = resumed.communicate(timeout=RUN_LIMIT_S)
    assert resumed.returncode == 0, said
    assert re.search(r"alpha: submitted as job \d+, attempt 2", said), said


def test_programs_are_bound_to_their_cores_where_slurm_gives_a_job_its_own(bound_bed: Bed, tmp_path: Path) -> None:
    programs = {"plain": "", "ranks": 'run:mpi="1"'}
    model = write_ring(tmp_path / "ring", programs)
    launch(bound_bed, model, places=dict.fromkeys(programs, "alpha"))
    facts = {name: own[0] for name, own in facts_of(tmp_path / "run").items()}
    assert {each["host"] for each in facts.values()} == set(ALPHA)
    assert {each["host"]: each["cpus"] for each in facts.values()} == {"alpha1": [0], "alpha2": [1]}
    assert facts["plain"]["OMP_PLACES"] == "cores"


def test_a_job_of_which_nobody_knows_how_long_it_takes_has_the_time_that_its_partition_gives(
    bed: Bed, tmp_path: Path
) -> None:
    model = write_ring(tmp_path / "ring", {"a": "", "b": ""})
    model.write_text(model.read_text().replace('runtime="10 s"', ""))
    sites = bed.sites_toml("alpha").replace('walltime = "30 min"\n', "")
    launch(bed, model, places={"a": "alpha", "b": "alpha"}, sites=sites)
    (job,) = {each["SLURM_JOB_ID"] for facts in facts_of(tmp_path / "run").values() for each in facts}
    assert "TimeLimit=02:00:00 " in bed.site("alpha").run(f"scontrol show job {job}").stdout


def test_a_job_that_waits_for_nodes_that_do_not_work_says_so_and_goes_on_when_they_do(bed: Bed, tmp_path: Path) -> None:
    model = write_ring(tmp_path / "ring", {"flow": 'run:mpi="5"', "heat": ""})
    sites, said = tmp_path / "sites.toml", tmp_path / "said"
    sites.write_text(bed.sites_toml("alpha"))
    command = [BIN / "xmml-run", model, "--sites", sites, "-o", tmp_path / "run"]
    command += ["--place=flow=alpha", "--place=heat=alpha"]
    slurm = bed.cluster("alpha").slurm
    slurm.root("scontrol update NodeName=alpha2 State=DRAIN Reason=test", check=True)
    with said.open("w") as file:
        going = bed.laptop.start(command, cwd=model.parent, stderr=file, text=True)
        try:
            words = (
                r"asks for 2 nodes \(nodes in \S*sites.toml:\d+\), and only 1 node works in the partition batch: set "
            )
            wait_until(lambda: re.search(words, said.read_text()), said.read_text, RUN_LIMIT_S)
        finally:
            slurm.root("scontrol update NodeName=alpha2 State=RESUME", check=True)
        assert going.wait(timeout=RUN_LIMIT_S) == 0, said.read_text()


SET_UP = [text for text in printed.blocks("sites.md", "toml") if "setup = " in text and "[site." not in text]
#: What gives shells the command `module`. Debian's packages of the two exclude each other: Lmod's can only be unpacked
#: beside the other one.
MODULE_SYSTEMS = {"Environment Modules": "/usr/share/modules/init/bash", "Lmod": "/usr/share/lmod/lmod/init/bash"}


@pytest.fixture(params=MODULE_SYSTEMS)
def module_system(request: pytest.FixtureRequest, bed: Bed) -> Iterator[str]:
    """The file of a module system, which login shells of `alpha` read."""
    file = MODULE_SYSTEMS[request.param]
    if not Path(file).exists():
        pytest.skip(f"needs {request.param}, which has {file}")
    profile = bed.site("alpha").home() / ".bash_profile"
    before = profile.read_text()
    profile.write_text(f". {file} && module use /opt/modules\n")
    yield file
    profile.write_text(before)


@pytest.mark.parametrize("lines", SET_UP)
def test_a_program_has_the_modules_the_set_up_and_the_variables_of_its_site(
    bed: Bed, tmp_path: Path, module_system: str, lines: str
) -> None:
    model = write_ring(tmp_path / "ring", {"a": "", "b": ""})
    program = model.parent / "plain.py"
    told = "import os; print('found', *map(os.environ.get, ('OPENMPI_LOADED', 'DATA', 'SOLVER', 'MODULESHOME')))\n"
    program.write_text(told + program.read_text())
    lines = lines.replace(MODULE_SYSTEMS["Environment Modules"], module_system)
    sites = bed.sites_toml("alpha").replace('scheduler = "slurm"', f'scheduler = "slurm"\n{lines}')
    launch(bed, model, places={"a": "alpha", "b": "alpha"}, sites=sites)
    found = (tmp_path / "run/instances/a/stdout").read_text()
    home = Path(module_system).parents[1]
    assert re.search(rf"^found alpha /home/alice/data cg {home}$", found, re.MULTILINE), found
