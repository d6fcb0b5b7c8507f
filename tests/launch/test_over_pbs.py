"""Whole runs over two sites with PBS. What has the queue there is a stand-in (tests/support/fake_pbs.py), which takes
the commands and scripts of either dialect and really runs the jobs; and a real OpenPBS where the machine has one
(tests/testbed/openpbs)."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
from collections.abc import Iterator

import pytest
from commands import XMML_RUN
from rings import facts_of, write_ring
from several_sites import REAL_PBS, Sites
from waiting import RUN_LIMIT_S, wait_until

WAIT = "import time; time.sleep(600)"


@pytest.fixture(params=["openpbs", "torque", REAL_PBS])
def kind(request: pytest.FixtureRequest) -> str:
    """What has the queues."""
    return str(request.param)


@pytest.fixture
def queues(kind: str, sites: Sites) -> Sites:
    """Two sites, each with a PBS of the same kind."""
    for name in sites.servers:
        sites.give_queue(name, kind)
    return sites


def states(sites: Sites) -> dict[str, list[str]]:
    """The state of each job of each queue."""
    return {name: list(jobs.values()) for name, jobs in sites.job_states().items()}


def await_states(sites: Sites, expected: dict[str, list[str]]) -> None:
    """Wait until the jobs have these states: a server takes a moment to put away what is over."""
    wait_until(lambda: states(sites) == expected, lambda: str(states(sites)))


def only_job(sites: Sites, site: str) -> str:
    """The id of the only job that a site has."""
    (id,) = sites.job_states()[site]
    return id


def test_a_run_over_two_pbs_gives_the_same_as_one_on_this_machine(queues: Sites) -> None:
    queues.end(queues.launch(queues.write_model())).check(0, "the last answer is 16.1")
    assert (queues.run_folder / "instances/asks/work/result.txt").read_text() == "16.1"
    ids = {line["job"]: line["id"] for line in queues.journal("submitted")}
    assert ids.keys() == {"alpha.1", "beta.1"}
    assert all(re.fullmatch(rf"\d+\.{os.uname().nodename}", id) for id in ids.values())
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})


def test_jobs_of_two_parts_of_a_cluster_are_looked_after_together(queues: Sites) -> None:
    queues.more["alpha"] += '[site.part]\nlike = "alpha"\n'
    model = queues.write_model(asks="import time; time.sleep(2)")  # so that the queue is asked meanwhile
    queues.end(queues.launch(model, answers="part")).check(0, "the last answer is 16.1")
    # On a busy machine one of two that do not begin together may have been given back and asked for again.
    wait_until(lambda: set(states(queues)["alpha"]) == {"F"}, lambda: str(states(queues)))
    assert len(states(queues)["alpha"]) >= 2


def test_a_check_of_sites_says_which_pbs_there_is(queues: Sites, kind: str) -> None:
    checked = queues.do("xmml", "sites", "check", "--sites", str(queues.write_sites()), "alpha", "beta").check(0)
    assert len(re.findall(rf"scheduler +ok +{'Torque' if kind == 'torque' else 'OpenPBS'} \d+\.", checked.out)) == 2


def test_each_node_of_a_job_has_its_programs(queues: Sites) -> None:
    queues.more["alpha"] += "nodes = 2\n"
    queues.cores["alpha"] = 1
    model = write_ring(queues.folder / "ring", {"a": "", "b": ""})
    options = queues.options(model, {"a": "alpha", "b": "alpha"})
    queues.end(queues.start("xmml-run", *options)).check(0, "2 instances ran")
    assert [line["job"] for line in queues.journal("submitted")] == ["alpha.1"]
    parents = {name: facts[0]["parent"] for name, facts in facts_of(queues.run_folder).items()}
    assert parents["a"] != parents["b"], "each was started by an agent of its own"


#: Two pairs of instances that can share processes. Each writes by which process its own was started.
HOSTED = """<model id="hosted" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions>
  <submodel id="Talker" init="yes"><timescale delta="1 s" total="3 s"/>
    <ports><out id="say" operator="Oi"/><in id="hear" operator="S"/></ports>
    <implementation cores="1"><code language="python" part="Oi">import os; say = os.getppid(); print(say)</code>
      <code language="python" part="S">pass</code></implementation></submodel></definitions>
  <topology><instance id="a" submodel="Talker"/><instance id="b" submodel="Talker"/>
    <instance id="c" submodel="Talker"/><instance id="d" submodel="Talker"/>
    <coupling from="a.say" to="b.hear"/><coupling from="b.say" to="a.hear"/>
    <coupling from="c.say" to="d.hear"/><coupling from="d.say" to="c.hear"/></topology></model>"""


@pytest.mark.parametrize("kind", ["openpbs"], indirect=True)
def test_instances_that_share_processes_are_on_the_nodes_of_the_plan(queues: Sites) -> None:
    queues.more["alpha"] += "nodes = 2\n"
    model = queues.folder / "hosted.xmml"
    model.write_text(HOSTED)
    options = queues.options(model, dict.fromkeys("abcd", "alpha"), "--hosts", "1")
    queues.end(queues.start("xmml-run", *options)).check(0)
    plan = json.loads((queues.run_folder / "plan.json").read_text())
    assert len({each["process"] for each in plan["instances"]}) == 2, "one on each node"
    starters: dict[int, set[str]] = {0: set(), 1: set()}
    for each in plan["instances"]:
        said = (queues.run_folder / each["folder"] / "stdout").read_text()
        starters[each["shares"][0]["node"]].update(said.split())
    assert [len(own) for own in starters.values()] == [1, 1]
    assert starters[0] != starters[1], "each was started by the agent of its node"


def test_a_run_that_is_launched_in_a_job_uses_its_nodes_and_submits_nothing(queues: Sites, kind: str) -> None:
    model = write_ring(queues.folder / "ring", {"a": "", "b": ""})
    run, said = queues.run_folder, queues.folder / "said"
    script = queues.folder / "job.sh"
    asked = "nodes=2:ppn=1" if kind == "torque" else "select=2:ncpus=1 -l place=scatter"
    lines = [f"#PBS -l {asked}", f"#PBS -o {said}.out", f"#PBS -e {said}", f"{shlex.quote(XMML_RUN)} {model} -o {run}"]
    script.write_text("\n".join([*lines, ""]))
    queues.at_queue("alpha", "qsub", script)
    wait_until(lambda: states(queues)["alpha"] == ["F"], lambda: said.read_text(), RUN_LIMIT_S)
    assert "2 instances ran" in said.read_text()
    nodes = r"\S+, \S+" if kind == REAL_PBS else f"{os.uname().nodename}, localhost"
    assert re.search(rf"job \d+\.\S+ has 2 nodes \({nodes}\), each with 1 core", said.read_text())
    parents = {name: facts[0]["parent"] for name, facts in facts_of(run).items()}
    hosts = {name: facts[0]["host"] for name, facts in facts_of(run).items()}
    assert (parents["a"], hosts["a"]) != (parents["b"], hosts["b"]), "each was started by an agent of its own"


def test_a_node_on_which_nothing_can_be_started_ends_the_run_with_what_was_said(queues: Sites) -> None:
    queues.cores["alpha"] = 1
    folder = queues.folder / "broken"
    folder.mkdir()
    for name in ("pbs_tmrsh", "pbsdsh"):
        (folder / name).write_text("#!/bin/sh\necho that node is not of this job >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    queues.more["alpha"] += f'nodes = 2\nsetup = ["PATH={folder}:$PATH"]\n'
    options = queues.options(write_ring(queues.folder / "ring", {"a": "", "b": ""}), {"a": "alpha", "b": "alpha"})
    said = "what starts programs on node 1 ended with status 1: that node is not of this job"
    queues.end(queues.start("xmml-run", *options)).check(5, said)
    assert queues.left_behind() == []


@pytest.mark.parametrize("kind", ["openpbs"], indirect=True)
def test_a_node_on_which_nothing_starts_is_told_with_what_its_script_says(queues: Sites) -> None:
    queues.cores["alpha"] = 1
    folder, may_start = queues.folder / "slow", queues.folder / "may-start"
    folder.mkdir()
    real = queues.servers["alpha"].home / "bin/pbs_tmrsh"
    waits = f'echo that node is busy >&2\nuntil [ -e {may_start} ]; do sleep 0.1; done\nexec {real} "$@"\n'
    (folder / "pbs_tmrsh").write_text(f"#!/bin/sh\n{waits}")
    (folder / "pbs_tmrsh").chmod(0o755)
    queues.more["alpha"] += f'nodes = 2\nsetup = ["PATH={folder}:$PATH"]\n'
    options = queues.options(write_ring(queues.folder / "ring", {"a": "", "b": ""}), {"a": "alpha", "b": "alpha"})
    run = queues.start("xmml-run", *options)
    said = r"nothing has started on node 1 of job \S+ for 30 s; its script says: that node is busy"
    events = queues.run_folder / "events.jsonl"
    wait_until(lambda: events.exists() and re.search(said, events.read_text()), "nobody is told", RUN_LIMIT_S)
    may_start.touch()
    queues.end(run).check(0, "2 instances ran")


@pytest.fixture(params=["queue workq", "server"])
def short_queue(queues: Sites, kind: str, request: pytest.FixtureRequest) -> Iterator[Sites]:
    """The sites; jobs of the queue of `alpha` get a minute at most, by its own limit or by that of its server."""
    if kind != REAL_PBS:
        name = request.param.split()[0]
        (queues.servers["alpha"].home / f".fake-pbs/{name}").write_text("resources_max.walltime = 00:01:00")
        yield queues
        return
    queues.at_queue("alpha", "qmgr", "-c", f"set {request.param} resources_max.walltime = 00:01:00")
    yield queues
    queues.at_queue("alpha", "qmgr", "-c", f"unset {request.param} resources_max.walltime")


def test_a_job_that_its_queue_refuses_ends_the_run_with_the_value_that_is_wrong_and_one_that_would_do(
    short_queue: Sites,
) -> None:
    short_queue.end(short_queue.launch(short_queue.write_model())).check(
        5,
        "PBS does not take the job: Job violates queue and/or server resource limits",
        "the job asks for 5 min (walltime in ",
        'the queue workq allows 1 min: set walltime = "1 min"',
    )
    assert short_queue.left_behind() == []


def test_ctrl_c_takes_the_jobs_out_of_their_queues(queues: Sites) -> None:
    going = queues.launch(queues.write_model(answers=WAIT))
    queues.await_event("joined", 2)
    os.killpg(going.pid, signal.SIGINT)
    queues.end(going).check(130, "interrupted")
    assert queues.left_behind() == []
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})


def test_a_job_that_somebody_deletes_ends_the_run(queues: Sites) -> None:
    going = queues.launch(queues.write_model(answers=WAIT))
    queues.await_event("joined", 2)
    queues.at_queue("beta", "qdel", only_job(queues, "beta"))
    queues.end(going).check(5, "the job of beta is over")
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})


def with_jobs_of_which_nobody_knows(queues: Sites) -> None:
    """A run whose jobs are held by their queues, and whose launcher was killed before it noted their numbers."""
    for name in queues.servers:
        queues.more[name] += 'options = ["-h"]\n'
    going = queues.launch(queues.write_model())
    wait_until(lambda: len(queues.journal("submitted")) == 2, "nobody noted that both jobs are submitted")
    queues.kill(going)
    queues.forget("submitted")


def test_cancel_finds_jobs_whose_numbers_a_killed_launcher_has_not_noted(queues: Sites) -> None:
    with_jobs_of_which_nobody_knows(queues)
    queues.do("xmml", "cancel", str(queues.run_folder)).check(0, "alpha: nothing is left", "beta: nothing is left")
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})
    assert queues.left_behind() == []


def test_a_run_goes_on_with_jobs_whose_numbers_a_killed_launcher_has_not_noted(queues: Sites) -> None:
    with_jobs_of_which_nobody_knows(queues)
    for name in queues.servers:
        queues.at_queue(name, "qrls", only_job(queues, name))
    ended = queues.end(queues.start("xmml-run", "--resume", str(queues.run_folder)))
    ended.check(0, "the last answer is 16.1")
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})  # no second job was submitted
    assert queues.left_behind() == []


def test_who_is_interrupted_while_he_goes_on_with_a_run_leaves_no_job_of_the_earlier_launcher(queues: Sites) -> None:
    with_jobs_of_which_nobody_knows(queues)
    going = queues.start("xmml-run", "--resume", str(queues.run_folder))
    wait_until(lambda: len(queues.journal("submitted")) == 2, "nobody has looked up the jobs")
    os.killpg(going.pid, signal.SIGINT)
    queues.end(going).check(130, "interrupted")
    await_states(queues, {"alpha": ["F"], "beta": ["F"]})
    assert queues.left_behind() == []


SEQUENCE = """<model id="sequence" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="First"><timescale delta="1 s" total="3 s"/><ports><out id="o" operator="Of"/></ports>
      <implementation language="python" path="first.py"/></submodel>
    <submodel id="Second"><timescale delta="1 s" total="3 s"/><ports><in id="i" operator="finit"/></ports>
      <implementation language="python" path="second.py"/></submodel>
  </definitions>
  <topology><instance id="first" submodel="First"/><instance id="second" submodel="Second"/>
    <coupling from="first.o" to="second.i"/></topology>
</model>
"""
FIRST = "import xmml\nwith xmml.Instance() as me:\n    while me.reuse(): me.send('o', 41)\n"
SECOND = "import xmml\nwith xmml.Instance() as me:\n    while me.reuse(): me.receive('i')\n"


@pytest.mark.parametrize("kind", ["openpbs", REAL_PBS], indirect=True)
def test_a_job_whose_time_is_over_while_a_later_one_still_waits_says_so_and_what_to_do(
    queues: Sites, kind: str
) -> None:
    sites = queues
    sites.more["beta"] += 'options = ["-h"]\n'  # its jobs are held
    model = sites.folder / "model"
    model.mkdir()
    for name, text in (("model.xmml", SEQUENCE), ("first.py", FIRST), ("second.py", SECOND)):
        (model / name).write_text(text)
    place = {"first": "alpha", "second": "beta"}
    going = sites.start("xmml-run", *sites.options(model / "model.xmml", place))
    wait_until(lambda: [line["job"] for line in sites.journal("submitted")] == ["alpha.1", "beta.1"], "nobody waits")
    sites.await_event("joined")
    id = only_job(sites, "alpha")
    if kind == REAL_PBS:
        sites.at_queue("alpha", "qalter", "-l", "walltime=00:00:01", id)
    else:
        job = sites.servers["alpha"].home / f".fake-pbs/{id}.job"
        facts = json.loads(job.read_text())
        facts["fake"]["walltime"] = 0
        (job.parent / "part").write_text(json.dumps(facts))
        (job.parent / "part").replace(job)
    number = id.partition(".")[0]
    ended = sites.end(going)
    ended.check(5, f"the job alpha ({number}.", "had a limit of 5 min", "and beta (", "queue_wait of beta")
    assert ended.err.splitlines()[-1].startswith("xmml-run: the job alpha")


def test_a_job_that_the_queue_does_not_take_releases_the_other_site(queues: Sites) -> None:
    queues.more["beta"] += 'partition = "nosuch"\n'
    queues.end(queues.launch(queues.write_model())).check(5, "beta", "Unknown queue")
    assert states(queues)["beta"] == []
