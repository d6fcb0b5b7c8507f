"""Whoever stops a run over sites, and whenever: every site is released, and nothing is left."""

from __future__ import annotations

import os
import random
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from folders import below
from gates import awaits
from processes import watches
from several_sites import Sites
from waiting import LIMIT_S, wait_until
from wan.soak import LONG

WAIT = "import time; time.sleep(600)"
#: Jobs of a site wait in their setup until the file is there; who looks at the environment outside of a job does not.
HELD = """setup = ['while [ -n "${xmml_phase:-}" ] && [ ! -e ~/open ]; do sleep 0.05; done']\n"""


@pytest.mark.parametrize("moment", ["connecting", "staged", "ready", "running"])
def test_ctrl_c_in_every_phase_releases_every_site(sites: Sites, moment: str) -> None:
    going = sites.launch(sites.write_model(answers=WAIT))
    if moment == "running":
        sites.await_event("joined", 2)
    else:
        sites.await_words(moment)
    os.killpg(going.pid, signal.SIGINT)
    sites.end(going).check(130, "interrupted")
    assert sites.left_behind() == []


def test_ctrl_c_during_a_build_ends_the_compiler(sites: Sites) -> None:
    model = sites.write_model()
    compiler = "touch ~/compiling; sleep 600 &amp; wait"
    model.write_text(model.read_text().replace('path="answers.py"', f'path="answers.py" run:build="{compiler}"'))
    going = sites.launch(model)
    wait_until((sites.servers["beta"].home / "compiling").exists, "nothing is built")
    os.killpg(going.pid, signal.SIGINT)
    sites.end(going).check(130, "interrupted")
    assert sites.left_behind() == []


def launch_and_kill_in_a_build(sites: Sites, compiler: str) -> None:
    """As when the machine of the launcher loses power while a program is compiled at a site."""
    model = sites.write_model()
    model.write_text(model.read_text().replace('path="answers.py"', f'path="made.py" run:build="{compiler}"'))
    going = sites.launch(model)
    wait_until((sites.servers["beta"].home / "compiling").exists, "nothing is built")
    sites.kill(going)


def test_cancel_ends_a_build_whose_launcher_was_killed(sites: Sites) -> None:
    launch_and_kill_in_a_build(sites, "touch ~/compiling; sleep 600 &amp; wait")
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "alpha: nothing is left", "beta: nothing is left")
    assert sites.left_behind() == []


def test_a_run_whose_launcher_was_killed_in_a_build_goes_on_without_the_old_compiler(sites: Sites) -> None:
    launch_and_kill_in_a_build(sites, "touch ~/compiling; [ -e ~/open ] || sleep 600; cp answers.py made.py")
    (sites.servers["beta"].home / "open").touch()
    sites.end(sites.start("xmml-run", "--resume", str(sites.run_folder))).check(0, "the last answer is 16.1")
    assert sites.left_behind() == []


def test_cancel_stops_a_run_that_goes_on(sites: Sites) -> None:
    going = sites.launch(sites.write_model(answers=WAIT))
    sites.await_event("joined", 2)
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "nothing is left")
    sites.end(going).check(130)


#: The login shell of a site: of results it passes so many bytes on over each channel, and the rest when a file is
#: there. Arguments: the number, and the file.
HOLDS_RESULTS = """import os, subprocess, sys, time
command, most, gate = os.environ["SSH_ORIGINAL_COMMAND"], int(sys.argv[1]), sys.argv[2]
if not any(f" {word} " in command for word in ("results", "channel")):
    os.execvp("sh", ["sh", "-c", command])
with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE) as there:
    passed = 0
    while data := there.stdout.read1(1 << 16):
        while passed > most and not os.path.exists(gate):
            time.sleep(0.02)
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        passed += len(data)
sys.exit(there.returncode)
"""


def test_cancel_waits_while_results_come_and_tells_how_much_has_come(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    shell = shlex.join([sys.executable, "-c", HOLDS_RESULTS, "20000000", str(gate)])
    (tmp_path / "shell").write_text(f"exec {shell}\n")
    with Sites(tmp_path, settings={"beta": f"ForceCommand sh {shlex.quote(f'{tmp_path}/shell')}"}) as sites:
        mesh = 'import os; open("part", "wb").truncate(250 * 2**20); os.rename("part", "mesh.bin")'
        going = sites.launch(sites.write_model(answers=f"{mesh}; {WAIT}"))
        sites.await_event("joined", 2)
        wait_until(
            lambda: [path for path in below(sites.servers["beta"].home) if path.name == "mesh.bin"],
            "there is no result",
        )
        cancelling = sites.start("xmml", "cancel", str(sites.run_folder))
        work = sites.run_folder / "instances/answers/work"
        assert cancelling.stderr is not None
        assert any("beta: fetching results, " in line for line in cancelling.stderr)
        sites.do("xmml", "status", str(sites.run_folder)).check(0, ": ending", "beta: fetching results, ")
        gate.touch()
        sites.end(cancelling).check(0, "nothing is left")
        sites.end(going).check(130)
        assert (work / "mesh.bin").stat().st_size == 250 * 2**20
        assert sites.left_behind() == []


def test_cancel_removes_every_trace_after_the_launcher_was_killed(sites: Sites) -> None:
    going = sites.launch(sites.write_model(answers=WAIT))
    sites.await_event("joined", 2)
    sites.kill(going)
    assert sites.journal("clean") == []
    sites.tear_journal()
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0, "alpha: nothing is left", "beta: nothing is left")
    assert sites.left_behind() == []
    again = sites.do("xmml", "cancel", str(sites.run_folder))
    again.check(0, "ended, nothing is left at alpha, beta; its folder here stays: ")


def test_a_run_that_was_cancelled_after_its_launcher_was_killed_says_so_and_begins_anew_if_it_is_resumed(
    sites: Sites,
) -> None:
    gate = sites.folder / "gate"
    going = sites.launch(sites.write_model(answers=awaits(gate)))
    sites.await_event("joined", 2)
    sites.kill(going)
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0)
    anew = "begins the run anew with its first step"
    sites.do("xmml", "status", str(sites.run_folder)).check(
        0, ": cancelled", f"xmml-run --resume {sites.run_folder} {anew}"
    )
    gate.touch()
    resumed = sites.end(sites.start("xmml-run", "--resume", str(sites.run_folder)))
    resumed.check(0, f"--resume {sites.run_folder.name} {anew}", "the last answer is 16.1")
    sites.do("xmml", "status", str(sites.run_folder)).check(0, ": done")


def test_a_run_that_was_interrupted_before_it_began_keeps_its_place(sites: Sites) -> None:
    sites.more["beta"] = HELD
    going = sites.launch(sites.write_model())
    sites.await_words("alpha: ready")
    wait_until(lambda: len(sites.journal("submitted")) == 2, "nobody noted that both jobs are submitted")
    sites.kill(going)
    sites.tear_journal()
    goes_on = "goes on with the launch; jobs that still wait keep their places in the queues: "
    sites.do("xmml", "status", str(sites.run_folder)).check(0, f"xmml-run --resume {sites.run_folder} {goes_on}")
    (sites.servers["beta"].home / "open").touch()
    resumed = sites.end(sites.start("xmml-run", "--resume", str(sites.run_folder)))
    resumed.check(0, f"--resume {sites.run_folder.name} {goes_on}", "the last answer is 16.1")
    assert sorted(line["job"] for line in sites.journal("submit")) == ["alpha.1", "beta.1"]


def test_a_run_that_was_interrupted_while_it_ran_begins_anew(sites: Sites) -> None:
    gate = sites.folder / "gate"
    model = sites.write_model(answers=awaits(gate))
    going = sites.launch(model)
    sites.await_event("joined", 2)
    sites.kill(going)
    sites.tear_journal()
    anew = "begins the run anew with its first step"
    sites.do("xmml", "status", str(sites.run_folder)).check(0, f"xmml-run --resume {sites.run_folder} {anew}")
    gate.touch()
    resumed = sites.end(sites.start("xmml-run", "--resume", str(sites.run_folder)))
    resumed.check(0, f"--resume {sites.run_folder.name} {anew}", "the last answer is 16.1")


def test_a_run_is_not_resumed_while_it_is_cancelled_nor_cancelled_twice(sites: Sites) -> None:
    going = sites.launch(sites.write_model(answers=WAIT))
    sites.await_event("joined", 2)
    sites.kill(going)
    somebody_waits = sites.servers["alpha"].hold()
    cancelling = sites.start("xmml", "cancel", str(sites.run_folder))
    assert somebody_waits.wait(LIMIT_S), "nobody cleans up"
    held = f"process {cancelling.pid} is cancelling {sites.run_folder}"
    sites.do("xmml-run", "--resume", str(sites.run_folder)).check(2, held)
    sites.do("xmml", "cancel", str(sites.run_folder)).check(5, held)
    sites.servers["alpha"].let_in()
    sites.end(cancelling).check(0, "alpha: nothing is left", "beta: nothing is left")


def test_a_detached_run_is_followed_to_its_end(sites: Sites) -> None:
    gate = sites.folder / "gate"
    sites.end(sites.launch(sites.write_model(answers=awaits(gate)), "--detach")).check(0, "runs in the background")
    sites.await_event("joined", 2)
    sites.do("xmml", "status", str(sites.run_folder)).check(0, ": running")
    attached = sites.start("xmml", "attach", str(sites.run_folder))
    gate.touch()
    sites.end(attached).check(0, "the last answer is 16.1")


def test_a_detached_run_is_cancelled(sites: Sites) -> None:
    sites.end(sites.launch(sites.write_model(answers=WAIT), "--detach")).check(0)
    sites.await_event("joined", 2)
    sites.do("xmml", "cancel", str(sites.run_folder)).check(0)
    sites.do("xmml", "attach", str(sites.run_folder)).check(130, "interrupted")


def test_a_lost_connection_is_made_again_and_nothing_of_the_run_is_lost(sites: Sites) -> None:
    is_cut = sites.folder / "is-cut"
    asks = f'print("asking", t, flush=True)\n            if t == 3:\n                {awaits(is_cut)}'
    model = sites.write_model(asks=asks, steps=12)
    going = sites.launch(model, "--listen", "127.0.0.1:0")  # so that instances do not need the connection, only we do
    log = sites.run_folder / "instances/asks/stdout"
    wait_until(lambda: log.exists() and "asking 3.0" in log.read_text(), "it does not run")
    sites.servers["alpha"].cut()
    is_cut.touch()
    ended = sites.end(going).check(0, "the last answer is 121.1")
    lines = [line.partition("| ")[2] for line in ended.out.splitlines() if "asking" in line]
    assert lines == [f"asking {step}.0" for step in range(12)]


def test_instances_that_lose_their_way_to_the_coordinator_come_back(sites: Sites) -> None:
    """Their only way to it is the connection by ssh, which is cut at random moments. `XMML_SOAK=1`: 100 times."""
    cuts, steps = (100, 4000) if LONG else (5, 200)
    stop = sites.folder / "stop"
    asks = f"import time; time.sleep(0.02)\n            if t == {steps - 1}:\n                {awaits(stop)}"
    going = sites.launch(sites.write_model(asks=asks, steps=steps))
    sites.await_event("joined", 2)
    chance = random.Random(1)
    for number in range(cuts):
        time.sleep(chance.uniform(0.0, 0.3))  # at any moment, also while the last cut is being mended
        for server in chance.sample(list(sites.servers.values()), chance.choice([1, 2])):
            server.cut()
        sites.await_event("back", number // 4)
    sites.await_event("back", 1)
    stop.touch()
    sites.end(going).check(0, f"the last answer is {(steps - 1) ** 2 + 0.1}")
    totals = {each["instance"]: each for each in sites.events("left")}
    for name in ("asks", "answers"):
        assert sum(conduit["sent"] for conduit in totals[name]["conduits"]) == steps
    assert not sites.events("lost")


def test_a_killed_instance_is_told_though_its_connection_might_come_back(sites: Sites) -> None:
    going = sites.launch(sites.write_model(answers=WAIT))
    sites.await_event("joined", 2)
    (pid,) = [event["pid"] for event in sites.events("joined") if event["instance"] == "answers"]
    os.kill(pid, signal.SIGKILL)
    sites.end(going).check(4, "answers failed: it was killed by SIGKILL")


def test_a_process_that_is_killed_below_a_script_that_lives_on_is_told_before_it_would_be_given_up(
    sites: Sites,
) -> None:
    model = sites.write_model(answers=WAIT)
    (model.parent / "wrapper").write_text(f"#!/bin/sh\n{shlex.quote(sys.executable)} answers.py\nexec sleep 600\n")
    (model.parent / "wrapper").chmod(0o755)
    text = model.read_text().replace('language="python" path="answers.py"', 'path="wrapper" run:stage-in="answers.py"')
    model.write_text(text)
    going = sites.launch(model)
    sites.await_event("joined", 2)
    (pid,) = [event["pid"] for event in sites.events("joined") if event["instance"] == "answers"]
    wait_until(lambda: any(watches(each, pid) for each in sites.servers["beta"].processes()), "nobody watches it")
    os.kill(pid, signal.SIGKILL)
    sites.end(going).check(4, "answers failed: the process that had joined the run is gone")


def test_a_connection_that_is_lost_while_jobs_wait_for_each_other_does_no_harm(sites: Sites) -> None:
    sites.more["beta"] = HELD
    going = sites.launch(sites.write_model())
    sites.await_words("alpha: ready")
    for server in sites.servers.values():
        server.cut()
    (sites.servers["beta"].home / "open").touch()
    sites.end(going).check(0, "the last answer is 16.1")
