"""One command runs a model over two sites and this machine, and leaves nothing."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from commands import XMML
from compiled import compiled
from disclosed import mode_of
from processes import ignoring_children
from rings import write_ring
from several_sites import Sites
from waiting import RUN_LIMIT_S, wait_until

WAIT = "import time; time.sleep(600)"
#: Makes the program `zmade` in two steps, as compilers do.
MAKEFILE = f"""zmade: part.o
\t{{ echo '#!{sys.executable}'; cat part.o; }} > zmade && chmod +x zmade
part.o: answers.py
\tcp answers.py part.o
"""


def made_of(source: str) -> bytes:
    """Return the program that the Makefile makes."""
    return f"#!{sys.executable}\n{source}".encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_run_over_two_sites_gives_the_same_as_one_on_this_machine(sites: Sites) -> None:
    model = sites.write_model()
    here = sites.folder / "here"
    sites.do("xmml-run", str(model), "-o", str(here)).check(0, "the last answer is 16.1")
    sites.end(sites.launch(model)).check(0, "the last answer is 16.1")
    for name in ("instances/asks/work/result.txt", "instances/asks/stdout", "instances/answers/stdout"):
        assert (sites.run_folder / name).read_bytes() == (here / name).read_bytes()


def test_a_run_hears_of_the_end_of_what_it_has_started_also_if_its_starter_ignores_children(sites: Sites) -> None:
    with ignoring_children():
        run = sites.launch(sites.write_model())
    sites.end(run).check(0, "the last answer is 16.1")


def test_a_step_that_does_not_start_is_told_with_what_srun_says(sites: Sites) -> None:
    srun, may_start = sites.folder / "like-srun", sites.folder / "may-start"
    words = "srun: Job 3 step creation temporarily disabled, retrying (Requested nodes are busy)"
    waits = f"echo '{words}' >&2\nuntil [ -e {may_start} ]; do sleep 0.1; done\nshift\nexec \"$@\"\n"
    srun.write_text(f"#!/bin/sh\n{waits}")
    srun.chmod(0o755)
    sites.more["alpha"] += f'mpi = "{srun} {{ranks}}"\n'
    model = write_ring(sites.folder / "ring", {"flow": 'run:mpi="1"', "plain": ""})
    run = sites.start("xmml-run", *sites.options(model, {"flow": "alpha", "plain": "beta"}))
    events = sites.run_folder / "events.jsonl"
    told = f"flow: its step has not started for 30 s; {words}"
    wait_until(lambda: events.exists() and told in events.read_text(), "nobody is told", RUN_LIMIT_S)
    may_start.touch()
    sites.end(run).check(0, "2 instances ran")


def test_programs_are_forked_at_a_site_that_has_an_interpreter_of_its_own(sites: Sites) -> None:
    python = sites.folder / "its-own-python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    sites.python["alpha"] = str(python)
    folder = sites.folder / "alike"
    folder.mkdir()
    (folder / "alike.py").write_text(
        "import xmml\nwith xmml.Instance() as me:\n    while me.reuse():\n"
        "        print('fork_server' in open('/proc/self/cmdline').read())\n"
    )
    (folder / "model.xmml").write_text(
        '<model id="alike" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml"><definitions>'
        '<submodel id="Alike"><timescale/><ports><out id="done" operator="Of"/></ports>'
        '<implementation language="python" path="alike.py"/></submodel>'
        '</definitions><topology><instance id="alike" submodel="Alike" multiplicity="3"/></topology></model>'
    )
    sites.cores["alpha"] = 3
    run = sites.start("xmml-run", *sites.options(folder / "model.xmml", {"alike": "alpha"}))
    sites.end(run).check(0, "3 instances ran")
    said = [(sites.run_folder / f"instances/alike[{copy}]/stdout").read_text() for copy in range(3)]
    assert said == ["True\n"] * 3


def test_sites_without_python_run_programs_in_other_languages(sites: Sites) -> None:
    pair = Path(__file__).parents[1] / "models/native_pair"
    folder = sites.folder / "pair"
    folder.mkdir()
    for name in ("sender", "reader"):
        shutil.copy(compiled(pair / f"{name}.cpp"), folder / name)
    text = re.sub(r'build/(\w+)" run:build="[^"]*"', r'\1"', (pair / "model.xmml").read_text())
    (folder / "model.xmml").write_text(text)
    used = sites.folder / "python-was-used"
    for name, server in sites.servers.items():
        python = server.home / "bin/python3"
        python.parent.mkdir(exist_ok=True)
        python.write_text(f"#!/bin/sh\necho $* >> {used}\nexit 1\n")
        python.chmod(0o755)
        sites.python[name] = "python3"
    sites.method = "relay"
    words = sites.options(folder / "model.xmml", {"w": "alpha", "r": "beta"})
    sites.do("xmml-run", *words).check(0, "Length: 65536; min: 0.000000; max: 65535.000000")
    assert not used.exists(), used.read_text()


POOL = """<?xml version="1.0" encoding="UTF-8"?>
<model id="pool" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <datatype id="field" run:attributes="step:int! param:enum(t,u)!"/>
    <submodel id="Writer">
      <timescale delta="1 s" total="20 s"/>
      <ports><out id="fields" datatype="field"/></ports>
      <implementation language="python" path="writer.py"/>
    </submodel>
    <submodel id="Reader">
      <timescale delta="1 s" total="20 s"/>
      <ports><in id="fields" datatype="field"/></ports>
      <implementation language="python" path="reader.py"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="w" submodel="Writer"/>
    <instance id="far" submodel="Reader"/>
    <instance id="near" submodel="Reader"/>
    <instance id="last" submodel="Reader"/>
    <coupling from="w.fields" to="last.fields" run:kind="latest" run:select="param = 't'"/>
    <coupling from="w.fields" to="far.fields" run:kind="pool" run:select="step % 5 = 1 and param = 'u'"/>
    <coupling from="w.fields" to="near.fields" run:kind="pool" run:select="step &lt; 2"/>
  </topology>
</model>
"""
POOL_WRITER = """import numpy as np, xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            for param in "tu":
                me.put("fields", np.full(50_000, t), step=int(t), param=param)
"""
#: Puts until somebody makes the file ENOUGH.
ENDLESS_WRITER = """import itertools, os, time, numpy as np, xmml
with xmml.Instance() as me:
    while me.reuse():
        for step in itertools.takewhile(lambda _: not os.path.exists("ENOUGH"), itertools.count()):
            me.put("fields", np.full(1000, float(step)), step=step, param="t")
            time.sleep(0.01)
"""
POOL_READER = """import xmml
with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            assert (field.data == field["step"]).all()
            print(me.methods("fields")[0]["chosen"], field["step"], field["param"])
"""


def test_objects_of_a_pool_go_through_relays_to_those_who_choose_them_or_see_the_newest(sites: Sites) -> None:
    folder = sites.folder / "pool"
    folder.mkdir()
    for name, text in (("model.xmml", POOL), ("writer.py", POOL_WRITER), ("reader.py", POOL_READER)):
        (folder / name).write_text(text)
    sites.method = "relay"
    places = {"w": "alpha", "far": "beta", "near": "alpha", "last": "beta"}
    sites.do("xmml-run", *sites.options(folder / "model.xmml", places)).check(0)
    far = (sites.run_folder / "instances/far/stdout").read_text().splitlines()
    near = (sites.run_folder / "instances/near/stdout").read_text().splitlines()
    assert far == [f"relay {step} u" for step in (1, 6, 11, 16)]
    last = (sites.run_folder / "instances/last/stdout").read_text().splitlines()
    steps = [int(line.removeprefix("relay ").removesuffix(" t")) for line in last]
    assert steps == sorted(set(steps))
    assert steps[-1] == 19
    assert [line.split()[1:] for line in near] == [[step, param] for step in "01" for param in "tu"]


def test_a_tap_here_is_shown_what_instances_at_sites_send_through_relays(sites: Sites) -> None:
    enough, seen = sites.folder / "enough", sites.folder / "seen"
    folder = sites.folder / "tapped"
    folder.mkdir()
    endless = ENDLESS_WRITER.replace("ENOUGH", str(enough))
    for name, text in (("model.xmml", POOL), ("writer.py", endless), ("reader.py", POOL_READER)):
        (folder / name).write_text(text)
    sites.method = "relay"
    run = sites.start("xmml-run", *sites.options(folder / "model.xmml", {"w": "alpha", "far": "beta", "near": "beta"}))
    sites.await_event("joined", 3)
    with seen.open("wb") as output:
        tap = subprocess.Popen([XMML, "tap", sites.run_folder, "w.fields", "--json"], stdout=output)
    wait_until(lambda: seen.read_text().count("\n") > 3, "nothing is shown")
    enough.touch()
    sites.end(run).check(0, "tap-1 has joined")
    assert tap.wait(RUN_LIMIT_S) == 0
    steps = [json.loads(line)["step"] for line in seen.read_text().splitlines()]
    assert steps == sorted(steps)


def test_a_plan_over_sites_is_carried_out_without_model_and_file_of_sites(sites: Sites) -> None:
    model = sites.write_model()
    plan = sites.folder / "plan.json"
    wishes = ["--place", "asks=alpha", "--place", "answers=beta"]
    sites.do("xmml", "plan", str(model), "--sites", str(sites.write_sites()), *wishes, "-o", str(plan)).check(0)
    model.unlink()
    (sites.folder / "sites.toml").unlink()
    sites.do("xmml-run", str(plan), "-o", str(sites.run_folder)).check(0, "the last answer is 16.1")
    assert {event["instance"]: event["site"] for event in sites.events("joined")} == {
        "asks": "alpha",
        "answers": "beta",
    }


def test_a_site_without_its_python_ends_the_run_which_says_how_to_install_one(sites: Sites) -> None:
    sites.python["beta"] = "~/nowhere/bin/python"
    ended = sites.end(sites.launch(sites.write_model()))
    ended.check(5, "~/nowhere/bin/python at beta cannot be started", "xmml sites install beta")
    assert "could not be cleaned" not in ended.err


def test_results_have_the_modes_that_the_umask_here_gives(sites: Sites) -> None:
    """As after a run on this machine; programs stay programs."""
    model = sites.write_model(answers="import pathlib; pathlib.Path('tool').touch(0o777)")
    copied = {"answers/tool": sites.folder / "tool", "asks/result.txt": sites.folder / "result.txt"}
    sites.umask = 0o027
    sites.end(sites.launch(model, *(f"--result={name}={target}" for name, target in copied.items()))).check(0)
    modes = {name: oct(mode_of(target)) for name, target in copied.items()}
    assert modes == {"answers/tool": "0o750", "asks/result.txt": "0o640"}


def test_an_instance_on_this_machine_talks_to_one_at_a_site(sites: Sites) -> None:
    sites.end(sites.launch(sites.write_model(), asks="here")).check(0, "the last answer is 16.1")
    assert (sites.run_folder / "instances/asks/work/result.txt").read_text() == "16.1"


def test_events_and_provenance_name_the_sites(sites: Sites) -> None:
    sites.end(sites.launch(sites.write_model())).check(0)
    joined = {event["instance"]: event["site"] for event in sites.events("joined")}
    assert joined == {"asks": "alpha", "answers": "beta"}
    provenance = json.loads((sites.run_folder / "provenance.json").read_text())
    assert {job["site"]: job["host"] for job in provenance["jobs"]}.keys() == {"alpha", "beta"}
    assert all(job["id"] for job in provenance["jobs"])
    staged = provenance["staged_at_sites"]
    assert staged.keys() == {"alpha", "beta"}
    for name, digest in (pair for files in staged.values() for pair in files.items()):
        assert digest == sha256((sites.folder / "model" / name).read_bytes()), name


def test_files_that_a_site_has_already_are_not_sent_again(sites: Sites) -> None:
    model = sites.write_model()
    sites.end(sites.launch(model)).check(0)
    sites.run_folder = sites.folder / "second"
    sites.end(sites.launch(model)).check(0, "0 of them sent (0 bytes)")


def test_programs_are_made_at_their_site(sites: Sites) -> None:
    model = sites.write_model()
    text = model.read_text()
    model.write_text(
        text.replace('path="answers.py"', 'path="made.py" run:build="cp answers.py made.py; echo made it"')
    )
    (model.parent / "made.py").write_text("")  # an older one that must not be used
    sites.end(sites.launch(model)).check(0, "building: cp answers.py made.py", "the last answer is 16.1")
    assert "made it" in (sites.run_folder / "builds/beta-1.log").read_text()


def test_a_program_is_made_again_at_its_site_after_its_source_was_edited(sites: Sites) -> None:
    """`make` here has left a program and an object that are older than the source; a site must not get them."""
    model = sites.write_model()
    model.write_text(model.read_text().replace('path="answers.py"', 'path="zmade" run:build="make"'))
    source, folder = model.parent / "answers.py", model.parent
    (folder / "Makefile").write_text(MAKEFILE)
    sites.end(sites.launch(model, asks="here", answers="here")).check(0, "the last answer is 16.1")
    assert (folder / "zmade").exists()
    edited = source.read_text().replace("0.1", "0.2")
    source.write_text(edited)
    sites.run_folder = sites.folder / "second"
    sites.end(sites.launch(model)).check(0, "the last answer is 16.2")
    (made,) = (line for line in sites.journal("programs") if line["site"] == "beta")
    provenance = json.loads((sites.run_folder / "provenance.json").read_text())
    assert provenance["sha256_at_sites"]["beta"] == made["sha256"] == {"zmade": sha256(made_of(edited))}


def test_a_program_that_cannot_be_made_ends_the_launch_with_its_words(sites: Sites) -> None:
    model = sites.write_model()
    model.write_text(
        model.read_text().replace('path="answers.py"', 'path="answers.py" run:build="echo no such mesh; false"')
    )
    sites.end(sites.launch(model)).check(5, "its build at beta", "no such mesh", "exit status 1")


def test_a_crash_at_one_site_stops_the_other_and_says_why(sites: Sites) -> None:
    model = sites.write_model(answers='if t == 2: raise ValueError("the river is dry")')
    ended = sites.end(sites.launch(model)).check(4, "answers", "the river is dry")
    assert "the river is dry" in (sites.run_folder / "instances/answers/stderr").read_text()
    assert ended.err.splitlines()[-1].startswith("xmml-run: answers")


def test_a_site_that_cannot_be_reached_ends_the_launch_and_releases_the_other(sites: Sites) -> None:
    sites.servers["beta"].stop_listening()
    sites.end(sites.launch(sites.write_model())).check(5, "site beta", "cannot be reached")


def test_a_changed_host_key_ends_the_launch(sites: Sites) -> None:
    sites.servers["beta"].change_host_key()
    sites.end(sites.launch(sites.write_model())).check(5, "beta", "is not the one in your known_hosts")


def test_a_module_that_is_missing_is_named(sites: Sites) -> None:
    sites.more["beta"] = 'setup = ["no-such-command"]\n'
    sites.end(sites.launch(sites.write_model())).check(5, "beta", "no-such-command")


def test_a_setup_that_fails_is_told_before_a_job_is_submitted(sites: Sites) -> None:
    sites.more["beta"] = 'setup = ["no-such-command"]\n'
    sites.end(sites.launch(sites.write_model(), asks="beta")).check(5, "beta", "no-such-command")
    assert sites.journal("submit") == []


def test_lines_of_instances_at_sites_can_be_followed_while_they_run(sites: Sites) -> None:
    model = sites.write_model(answers='print("step", t, flush=True); import time; time.sleep(600 if t == 1 else 0)')
    going = sites.launch(model)
    sites.await_event("joined", 2)
    follower = sites.start("xmml", "logs", str(sites.run_folder), "answers", "-f")
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(2)] == ["step 0.0\n", "step 1.0\n"]
    going.terminate()
    sites.end(going).check(130)
    assert sites.end(follower).status == 0


def test_results_that_do_not_come_back_stay_at_their_site_and_end_the_run_with_its_own_status(sites: Sites) -> None:
    """Something stands here in the way of a result."""
    there = sites.run_folder / "instances/asks/work/result.txt"
    sites.end(sites.launch(sites.write_model(asks=f"import os; os.makedirs({str(there)!r}, exist_ok=True)"))).check(
        5, "what the run has made at alpha has not all come back", "it still lies at alpha in"
    )
    (kept,) = (sites.servers["alpha"].home / "xmml/runs").glob("*/instances/asks/work/result.txt")
    assert kept.read_text() == "16.1"
    assert not (sites.servers["beta"].home / "xmml/runs").exists()
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "alpha: nothing is left")


def test_a_run_that_failed_says_also_what_did_not_come_back(sites: Sites) -> None:
    there = sites.run_folder / "instances/answers/work/level.txt"
    answers = f'import os; os.makedirs({str(there)!r}); open("level.txt", "w"); raise ValueError("the river is dry")'
    ended = sites.end(sites.launch(sites.write_model(answers=answers)))
    ended.check(4, "what the run has made at beta has not all come back")
    assert "the river is dry" in ended.err.splitlines()[-1]
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "beta: nothing is left")


def test_a_run_whose_program_has_not_written_a_result_that_the_model_names_leaves_all_at_the_site(
    sites: Sites,
) -> None:
    model = sites.write_model(answers='open("history.csv", "w").write("7")')
    model.write_text(
        model.read_text().replace('path="answers.py"', 'path="answers.py" run:stage-out="histroy.csv *.nc"')
    )
    ended = sites.end(sites.launch(model))
    ended.check(5, "instances/answers has not written histroy.csv, which run:stage-out names", "lies at beta in")
    (kept,) = (sites.servers["beta"].home / "xmml/runs").glob("*/instances/answers/work/history.csv")
    assert kept.read_text() == "7"
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "beta: nothing is left")


def test_links_among_the_results_that_no_pattern_names_are_told(sites: Sites) -> None:
    link = 'import os; os.path.lexists("last") or os.symlink("stdout", "last")'
    sites.end(sites.launch(sites.write_model(answers=link))).check(
        0, "beta: not copied: a symbolic link among the results: instances/answers/work/last; run:stage-out with"
    )


def test_a_working_folder_that_is_too_large_stays_at_its_site_and_is_told(sites: Sites) -> None:
    sites.end(sites.launch(sites.write_model(answers='open("mesh.bin", "wb").truncate(257 * 2**20)'))).check(
        5, "instances/answers/work has more than 256 MiB", "no run:stage-out", "it still lies at beta in"
    )
    assert (sites.run_folder / "instances/asks/work/result.txt").read_text() == "16.1"
    (kept,) = (sites.servers["beta"].home / "xmml/runs").glob("*/instances/answers/work/mesh.bin")
    assert kept.stat().st_size == 257 * 2**20
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "beta: nothing is left")
