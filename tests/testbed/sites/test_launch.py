"""Models launched over the clusters of the test bed by one command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import canal_study
import pytest
import several_sites
from waiting import wait_until
from wan.soak import long_form

if TYPE_CHECKING:
    from testbed import Bed

XMML_RUN = Path(sys.executable).parent / "xmml-run"
XMML = Path(sys.executable).parent / "xmml"
#: A run over sites takes far less.
LIMIT_S = 300.0


@pytest.fixture
def bed(firewalled: Bed) -> Bed:
    """The test bed with its firewalls; what a run leaves there, but for staged files, is an error."""
    return firewalled


def write_pair(folder: Path, pause: float = 0.0) -> Path:
    """Write the model of two instances, of which one answers the other; every answer takes a pause [s]."""
    folder.mkdir(parents=True, exist_ok=True)
    answers = several_sites.ANSWERER.format(before=f"__import__('time').sleep({pause})")
    (folder / "asks.py").write_text(several_sites.SENDER.format(before="pass"))
    (folder / "answers.py").write_text(answers)
    (folder / "model.xmml").write_text(several_sites.MODEL.format(steps=20))
    return folder / "model.xmml"


#: What the one that asks says in the end.
LAST_WORDS = "the last answer is 361.1\n"


def launch(bed: Bed, model: Path, folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a model from the laptop over all sites."""
    sites = folder.parent / "sites.toml"
    sites.write_text(bed.sites_toml())
    command = [XMML_RUN, model, "--sites", sites, "-o", folder, *words]
    return bed.laptop.run(command, cwd=model.parent, check=check, timeout_s=LIMIT_S)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_canal_over_two_clusters_and_the_laptop_equals_the_local_run_to_the_last_bit(
    bed: Bed, tmp_path: Path
) -> None:
    model = tmp_path / "canal"
    canal_study.write(model)
    subprocess.run(
        [XMML_RUN, model / "model.xmml", "-o", tmp_path / "here"], check=True, capture_output=True, timeout=LIMIT_S
    )
    places = {
        **dict.fromkeys(("head", "middle", "tail", "north", "south"), "alpha"),
        **dict.fromkeys(("north1", "north2", "north_gate"), "beta"),
        **dict.fromkeys(("south1", "south2", "south_gate", "picture"), "laptop"),
    }
    done = launch(
        bed, model / "model.xmml", tmp_path / "run", *(f"--place={name}={site}" for name, site in places.items())
    )
    assert "12 instances ran" in done.stderr
    names = ["head", "middle", "north1", "north2", "south1", "south2", "tail"]
    for name in names:
        here, there = (tmp_path / run / f"instances/{name}/work/volumes.csv" for run in ("here", "run"))
        assert here.read_bytes() == there.read_bytes(), name
    jobs = json.loads((tmp_path / "run/provenance.json").read_text())["jobs"]
    assert {job["site"] for job in jobs} == {"alpha", "beta"}
    assert all(re.fullmatch(r"\d+", job["id"]) for job in jobs)
    joined = {
        each["instance"]: each["site"] for each in lines_of(tmp_path / "run/events.jsonl") if each["what"] == "joined"
    }
    assert joined == places
    methods = methods_used(bed, tmp_path / "run", places)
    assert methods["alpha", "beta"] == methods["beta", "alpha"] == {"relay"}
    assert methods["alpha", "laptop"] == methods["laptop", "alpha"] == {"relay"}
    assert "relay" not in methods["alpha", "alpha"] | methods["beta", "beta"] | methods["laptop", "laptop"]


def test_a_run_by_the_ssh_of_openssh_equals_the_local_run(bed: Bed, tmp_path: Path) -> None:
    model = write_pair(tmp_path / "pair")
    subprocess.run([XMML_RUN, model, "-o", tmp_path / "here"], check=True, capture_output=True, timeout=LIMIT_S)
    text = bed.sites_toml("alpha", "beta")
    sites = tmp_path / "sites.toml"
    sites.write_text(re.sub(r"^ssh = .*$", '\\g<0>\ntransport = "openssh"', text, flags=re.MULTILINE))
    calls = tmp_path / "calls"
    noting = tmp_path / "bin/ssh"
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\necho "$*" >> {calls}\nexec {shutil.which("ssh")} "$@"\n')
    noting.chmod(0o755)
    command = [XMML_RUN, model, "--sites", sites, "-o", tmp_path / "run", "--place=asks=alpha", "--place=answers=beta"]
    env = {**os.environ, "PATH": f"{noting.parent}:{os.environ['PATH']}"}
    bed.laptop.run(command, cwd=model.parent, env=env, timeout_s=LIMIT_S)
    masters = [line.split()[-1] for line in calls.read_text().splitlines() if " -M " in line]
    assert sorted(masters) == ["alpha", "beta"], "one connection for each site"
    for stream in ("asks/stdout", "asks/stderr", "answers/stdout", "answers/stderr"):
        here, there = (tmp_path / run / "instances" / stream for run in ("here", "run"))
        assert here.read_bytes() == there.read_bytes(), stream
    joined = [each for each in lines_of(tmp_path / "run/events.jsonl") if each["what"] == "joined"]
    assert {each["instance"]: each["site"] for each in joined} == {"asks": "alpha", "answers": "beta"}


def methods_used(bed: Bed, run: Path, places: dict[str, str]) -> dict[tuple[str, str], set[str]]:
    """Return by which methods messages went from each site to each other one, as `xmml status` tells."""
    told = json.loads(bed.laptop.run([XMML, "status", "--json", run]).stdout)
    plan = json.loads((run / "plan.json").read_text())
    ends = {each["id"]: (places[each["sender"]], places[each["receiver"]]) for each in plan["conduits"]}
    used: dict[tuple[str, str], set[str]] = {}
    for conduit in told["conduits"]:
        assert conduit["method"], conduit
        used.setdefault(ends[conduit["id"]], set()).add(conduit["method"])
    return used


def test_a_python_below_the_home_directory_of_a_site_runs_the_instances(bed: Bed, tmp_path: Path) -> None:
    alpha = bed.site("alpha")
    alpha.run("ln -s /opt/xmml env")
    try:
        model = write_pair(tmp_path / "pair")
        sites = tmp_path / "sites.toml"
        sites.write_text(bed.sites_toml("alpha").replace("/opt/xmml/bin/python", "~/env/bin/python"))
        command = [XMML_RUN, model, "--sites", sites, "-o", tmp_path / "run"]
        command += ["--place", "asks=alpha", "--place", "answers=alpha"]
        bed.laptop.run(command, cwd=model.parent, timeout_s=LIMIT_S)
        assert (tmp_path / "run/instances/asks/stdout").read_text().endswith(LAST_WORDS)
    finally:
        alpha.run("rm env")


PARTS = """[site.cluster]
work = "/home/alice/here/work"
scheduler = "slurm"
partition = "batch"
cores = 2
walltime = "5 min"
python = "/opt/xmml/bin/python"
can_reserve = true
[site.part]
like = "cluster"
walltime = "4 min"
"""


def prepare_on_the_cluster(bed: Bed, *words: str, as_root: bool = False, pause: float = 0.0) -> str:
    """Write the model of two instances on a login node; return the command that runs each in a job of its own."""
    alpha = bed.site("alpha")
    folder = alpha.home() / "here"
    write_pair(folder / "pair", pause)
    (folder / "sites.toml").write_text(PARTS)
    user = 0 if as_root else alpha.users[0].number
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
    there = f"/home/{alpha.users[0].name}/here"
    command = f"cd {there} && /opt/xmml/bin/xmml-run pair/model.xmml --sites sites.toml -o run {' '.join(words)}"
    return command + " --place asks=cluster --place answers=part"


def launch_on_the_cluster(bed: Bed, *words: str, as_root: bool = False) -> Path:
    """Run the model of two instances on a login node, each in a job of its own; return the folder of the run."""
    alpha = bed.site("alpha")
    folder = alpha.home() / "here"
    command = prepare_on_the_cluster(bed, *words, as_root=as_root)
    if as_root:
        alpha.login.run(["bash", "-lc", command], cwd="/", timeout_s=LIMIT_S)
    else:
        alpha.run(command, timeout_s=LIMIT_S)
    assert (folder / "run/instances/asks/stdout").read_text().endswith(LAST_WORDS)
    assert [path.name for path in (folder / "work").iterdir()] == ["staged"]
    return folder / "run"


@pytest.fixture
def journal_of(bed: Bed) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Launches on the cluster and returns the journal of the run."""
    yield lambda *words, **options: lines_of(launch_on_the_cluster(bed, *words, **options) / "journal.jsonl")
    shutil.rmtree(bed.site("alpha").home() / "here", ignore_errors=True)


def test_parts_of_one_cluster_start_together_as_one_heterogeneous_job(journal_of: Any) -> None:
    journal = journal_of()
    assert len({line["id"] for line in journal if line["what"] == "submitted"}) == 1
    assert {line["host"] for line in journal if line["what"] == "go"} == {"alpha1", "alpha2"}


def test_cores_are_reserved_for_all_jobs_and_given_back_after_the_run(bed: Bed, journal_of: Any) -> None:
    journal = journal_of("--co-allocation", "reservation", as_root=True)
    reserved = {line["name"] for line in journal if line["what"] == "reserve"}
    assert len(reserved) == 2
    assert {line["name"] for line in journal if line["what"] == "unreserved"} == reserved
    assert "No reservations" in bed.cluster("alpha").slurm.root("scontrol show reservation")


@long_form("a minute, most of it Slurm's")
def test_what_was_reserved_is_given_back_by_cancel_if_the_queue_did_not_answer_when_a_job_was_lost(
    bed: Bed, journal_of: Any
) -> None:
    alpha, slurm = bed.site("alpha"), bed.cluster("alpha").slurm
    command = prepare_on_the_cluster(bed, "--co-allocation", "reservation", as_root=True, pause=1000.0)
    folder = alpha.home() / "here"
    going = alpha.login.start(
        ["bash", "-lc", command], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        events = folder / "run/events.jsonl"
        wait_until(lambda: events.exists() and events.read_text().count('"joined"') == 2, "it does not run", 120)
        slurm.stop_controller()
        try:
            agent = next((folder / "work/runs").glob("*/jobs/part.*/*/agent"))
            number, _, host = agent.read_text().split()
            bed.machines[host].run(["kill", "-KILL", number], cwd="/")
            output, _ = going.communicate(timeout=LIMIT_S)
        finally:
            slurm.start_controller()
    finally:
        going.kill()
        going.communicate()
    assert going.returncode in (4, 5), output
    assert "cluster could not be cleaned" in output, output
    wait_until(lambda: "part" in slurm.root("scontrol -o show reservation"), "nothing was reserved", 60)
    cancel = f"/opt/xmml/bin/xmml cancel /home/{alpha.users[0].name}/here/run"
    told = alpha.login.run(["bash", "-lc", cancel], cwd="/", timeout_s=LIMIT_S).stdout
    assert "cluster: nothing is left" in told
    assert "No reservations" in slurm.root("scontrol show reservation")


def test_who_may_not_reserve_is_told_so_and_nothing_is_left(journal_of: Any) -> None:
    with pytest.raises(AssertionError, match="does not reserve"):
        journal_of("--co-allocation", "reservation")


def test_a_placeholder_gives_its_slot_back_while_the_other_cluster_is_busy_and_comes_again(
    bed: Bed, tmp_path: Path
) -> None:
    beta = bed.cluster("beta")
    model = write_pair(tmp_path / "pair")
    sites = tmp_path / "sites.toml"
    sites.write_text(bed.sites_toml())
    command = [XMML_RUN, model, "--sites", sites, "-o", tmp_path / "run", "--place=asks=alpha", "--place=answers=beta"]
    with beta.occupied():
        going = bed.laptop.start(command, cwd=model.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        events = tmp_path / "run/events.jsonl"
        given_back = '"about": "alpha", "text": "released'
        wait_until(lambda: events.exists() and given_back in events.read_text(), "alpha was not given back", LIMIT_S)
    _, errors = going.communicate(timeout=LIMIT_S)
    assert going.returncode == 0, errors
    submitted = [line["job"] for line in lines_of(tmp_path / "run/journal.jsonl") if line["what"] == "submitted"]
    assert submitted.count("beta.1") == 1
    assert "alpha.2" in submitted


SEQUENCE = """<model id="sequence" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="First"><timescale delta="1 s" total="3 s"/>
      <ports><out id="o" operator="Of"/></ports>
      <implementation language="python" path="first.py" runtime="2 hr"/></submodel>
    <submodel id="Second"><timescale delta="1 s" total="3 s"/>
      <ports><in id="i" operator="finit"/></ports>
      <implementation language="python" path="second.py" runtime="1 min"/></submodel>
  </definitions>
  <topology>
    <instance id="first" submodel="First"/><instance id="second" submodel="Second"/>
    <coupling from="first.o" to="second.i"/>
  </topology>
</model>
"""
FIRST = """import time
from pathlib import Path
import xmml
with xmml.Instance() as me:
    while me.reuse():
        while not (Path.home() / "open").exists():
            time.sleep(0.05)
        me.send("o", 41)
"""
SECOND = """import xmml
with xmml.Instance() as me:
    while me.reuse():
        print("heard", me.receive("i").data + 1, flush=True)
"""


def test_the_job_of_a_component_that_comes_later_is_asked_for_when_somebody_waits_for_it(
    bed: Bed, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    for name, text in (("model.xmml", SEQUENCE), ("first.py", FIRST), ("second.py", SECOND)):
        (tmp_path / "model" / name).write_text(text)
    sites = tmp_path / "sites.toml"
    sites.write_text(bed.sites_toml("alpha").replace('walltime = "30 min"', 'walltime = "3 hr"'))
    command = [XMML_RUN, tmp_path / "model/model.xmml", "--sites", sites, "-o", tmp_path / "run"]
    command += ["--place=first=alpha", "--place=second=alpha"]
    alpha = bed.cluster("alpha")
    alpha.slurm.root("scontrol update PartitionName=batch MaxTime=600")
    going = bed.laptop.start(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        events = tmp_path / "run/events.jsonl"
        wait_until(lambda: events.exists() and '"joined"' in events.read_text(), "the first does not run", 120)
        wait_until(lambda: "alpha-2: submitted in " in events.read_text(), "nobody said when the second is due")
        assert len(alpha.slurm.root("squeue -h").splitlines()) == 1
        (alpha.home() / "open").touch()
        _, errors = going.communicate(timeout=LIMIT_S)
    finally:
        going.kill()
        alpha.slurm.root("scontrol update PartitionName=batch MaxTime=120")
        (alpha.home() / "open").unlink(missing_ok=True)
    assert going.returncode == 0, errors
    assert (tmp_path / "run/instances/second/stdout").read_text() == "heard 42\n"
    journal = [(line["what"], line["job"]) for line in lines_of(tmp_path / "run/journal.jsonl") if "job" in line]
    assert journal.index(("submit", "alpha-2.1")) > journal.index(("go", "alpha-1.1"))


def test_a_run_whose_job_is_in_a_full_queue_says_that_it_waits_why_and_until_when(bed: Bed, tmp_path: Path) -> None:
    model = write_pair(tmp_path / "pair")
    sites, folder = tmp_path / "sites.toml", tmp_path / "run"
    sites.write_text(bed.sites_toml("alpha"))
    command = [XMML_RUN, model, "--sites", sites, "-o", folder, "--place=asks=alpha", "--place=answers=alpha"]
    with bed.cluster("alpha").occupied() as end:
        run = bed.laptop.start(command, cwd=model.parent, stderr=subprocess.PIPE, text=True)
        waiting = wait_until(lambda: told_of(bed, folder, "waiting"), "it does not say that it waits", LIMIT_S)
        assert re.fullmatch(
            r"job \d+ pending \((Resources|Priority)\), expected .*, waited .*", waiting["sites"]["alpha"]
        )
        end()
    _, said = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, said
    assert re.search(r"alpha: job \d+ pending \(", said), said


def told_of(bed: Bed, run: Path, state: str) -> dict[str, Any] | None:
    """What `xmml status` says of a run once it is in a state."""
    answer = bed.laptop.run([XMML, "status", "--json", run], check=False).stdout
    told: dict[str, Any] = json.loads(answer) if answer else {}
    return told if told.get("state") == state else None
