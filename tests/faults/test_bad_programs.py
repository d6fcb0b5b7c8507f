"""Programs that do what they should not: the run ends soon, with the right status, and says which instance and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled import compiled
from faulty_models import FAULT, RECEIVE, SEND, Models
from gates import awaits, says

JOIN = FAULT + "import xmml\nme = xmml.Instance()\n"


def test_without_a_fault_the_run_is_done(models: Models) -> None:
    ended = models.run(models.write({"a": SEND, "b": RECEIVE}), "--json")
    assert ended.status == 0, ended.err
    told = json.loads(ended.out)
    assert told["status"] == "done"
    assert told["instances"]["a"]["messages_sent"] == told["instances"]["b"]["messages_received"] == 3
    assert {row["state"] for row in told["instances"].values()} == {"done"}


def test_an_input_that_lies_beside_the_model_and_not_in_the_working_folder(models: Models) -> None:
    (models.folder / "input.txt").write_text("1.5")
    model = models.write({"a": f"open('input.txt')\n{SEND}", "b": RECEIVE})
    ended = models.run(model)
    assert ended.status == 4, ended.err
    assert (
        "input.txt lies beside the model, not in the working folder of a: "
        'run:stage-in="input.txt" on its implementation copies it there\n'
    ) in ended.err
    text = model.read_text()
    model.write_text(text.replace('path="a.py"', 'path="a.py" run:stage-in="input.txt"'))
    assert models.start(model, folder=models.folder / "mended").end().status == 0


def test_a_missing_program(models: Models) -> None:
    missing = {"a": '<implementation language="c" path="nothere"/>'}
    ended = models.run(models.write({"b": RECEIVE}, implementations=missing))
    ended.check(1, 'instance "a"', "nothere", "does not exist", "model.xmml:2:")
    assert not ended.folder.exists()


def test_a_program_that_the_build_does_not_make(models: Models) -> None:
    missing = {"a": '<implementation language="c" path="nothere" run:build="true"/>'}
    models.run(models.write({"b": RECEIVE}, implementations=missing)).check(
        1, 'instance "a"', "nothere", "model.xmml:2:"
    )


def test_a_build_that_fails(models: Models) -> None:
    broken = {"a": '<implementation language="c" path="x" run:build="echo undefined reference >&amp;2; exit 3"/>'}
    ended = models.run(models.write({"b": RECEIVE}, implementations=broken))
    ended.check(4, "a failed", "its build", "exit status 3", "undefined reference", "builds/1.log")


def test_a_program_that_is_no_program(models: Models) -> None:
    program = models.folder / "x"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)
    broken = {"a": '<implementation language="c" path="x"/>'}
    models.run(models.write({"b": RECEIVE}, implementations=broken)).check(4, "a failed", "could not be started", "/x")


def test_a_program_that_exits_with_status_1(models: Models) -> None:
    program = JOIN + "import sys\nfault()\nprint('the grid is empty', file=sys.stderr, flush=True)\nos._exit(1)\n"
    ended = models.run(models.write({"a": program, "b": RECEIVE}))
    ended.check(4, "a failed", "exit status 1", "the grid is empty", "instances/a/stderr")


def test_a_program_that_raises(models: Models) -> None:
    program = FAULT + SEND.replace('me.send("o", t)', "fault(); raise ValueError('negative depth')")
    ended = models.run(models.write({"a": program, "b": RECEIVE}))
    ended.check(4, "a failed", "negative depth", "a.py:", "instances/a/stderr")


def test_a_program_that_exits_with_status_1_before_joining(models: Models) -> None:
    ended = models.run(models.write({"a": FAULT + "fault()\nraise SystemExit(1)\n", "b": RECEIVE}))
    ended.check(4, "a failed", "exit status 1 before it joined", "instances/a/stderr")


def test_a_program_that_ends_without_joining(models: Models) -> None:
    ended = models.run(models.write({"a": FAULT + "fault()\n", "b": RECEIVE}))
    ended.check(4, "a failed", "without joining", "instances/a/stderr")


def test_a_program_that_ends_without_leaving(models: Models) -> None:
    ended = models.run(models.write({"a": JOIN + "fault()\nos._exit(0)\n", "b": RECEIVE}))
    ended.check(4, "a failed", "without leaving", "instances/a")


def test_a_program_that_lets_go_of_its_instance_and_exits_a_little_later(models: Models) -> None:
    program = JOIN + "fault()\ndel me\ntime.sleep(0.3)\n"
    ended = models.run(models.write({"a": program, "b": RECEIVE}))
    ended.check(4, "a failed", "without leaving", "instances/a")
    assert "has not disappeared" not in ended.err


def test_a_program_that_exits_with_status_1_after_leaving(models: Models) -> None:
    program = FAULT + SEND + "fault()\nraise SystemExit(1)\n"
    models.run(models.write({"a": program, "b": RECEIVE})).check(4, "a failed", "exit status 1")


def test_a_send_on_an_unknown_port(models: Models) -> None:
    program = FAULT + SEND.replace('me.send("o", t)', 'fault(); me.send("oo", t)')
    ended = models.run(models.write({"a": program, "b": RECEIVE}))
    ended.check(4, "a failed", 'no port "oo"', "o", "instances/a/stderr")


@pytest.mark.parametrize(("arguments", "begins"), [("", "xmml: "), (' run:args="asks"', "it says: ")])
def test_a_c_program_that_does_not_ask_why_a_call_failed_says_it_at_its_end(
    models: Models, arguments: str, begins: str
) -> None:
    program = compiled(Path(__file__).with_name("without_reason.c"))
    fails = {"a": f'<implementation language="c" path="{program}"{arguments}/>'}
    ended = models.run(models.write({"b": RECEIVE}, implementations=fails))
    ended.check(4, f'a failed: it ended with exit status 1: {begins}a has no port "oo"', "without_reason.c:15")
    assert (ended.folder / "instances/a/stderr").read_text().count("oo") == 1


def test_a_wrong_type(models: Models) -> None:
    program = FAULT + SEND.replace('me.send("o", t)', 'fault(); me.send("o", object())')
    models.run(models.write({"a": program, "b": RECEIVE})).check(4, "a failed", "object", "instances/a/stderr")


def test_a_receive_on_a_finished_conduit(models: Models) -> None:
    once = SEND.replace('me.send("o", t)', 'me.send("o", t); break')
    insists = (
        FAULT + "import xmml\nwith xmml.Instance() as me:\n    me.receive('i')\n    fault()\n    me.receive('i')\n"
    )
    models.write({"a": once, "b": insists})
    model = models.folder / "model.xmml"
    model.write_text(model.read_text().replace("<instance ", '<instance run:order="free" '))
    models.run(model).check(4, "b failed", "b.i", "a has ended", "instances/b/stderr")


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSEGV"])
def test_a_crash_in_the_middle_of_a_large_message(models: Models, number: str) -> None:
    """The sender dies while a message that does not fit into any buffer of the system is on its way."""
    crash = (
        FAULT
        + "import signal, threading, numpy, xmml\n"
        + f"def crash():\n    fault()\n    os.kill(os.getpid(), signal.{number})\n"
        + "with xmml.Instance() as me:\n    me.reuse()\n    for t in me.steps():\n"
        + "        data = numpy.zeros(100_000_000)\n        threading.Timer(0.02, crash).start()\n"
        + "        me.send('o', data)\n        time.sleep(60)\n"
    )
    slow = RECEIVE.replace('print(me.receive("i").data)', 'me.receive("i"); me.receive("i")')
    ended = models.run(models.write({"a": crash, "b": slow}))
    ended.check(4, "a failed", f"killed by {number}", "instances/a")


def test_a_partner_that_is_told_to_stop_is_stopped_even_if_it_does_not_listen(models: Models) -> None:
    is_deaf = models.folder / "is-deaf"
    deaf = f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{says(is_deaf)}\ntime.sleep(600)\n"
    program = FAULT + f"{awaits(is_deaf)}\nfault()\nraise SystemExit(1)\n"
    models.run(models.write({"a": program, "b": deaf})).check(4, "a failed")


def test_inline_code_fails_at_its_line_in_the_model(models: Models) -> None:
    inline = {"a": '<implementation><code language="python" part="Oi">\no = 1 / 0</code></implementation>'}
    ended = models.run(models.write({"b": RECEIVE}, implementations=inline))
    ended.check(4, "a failed", "division by zero", "model.xmml")


def test_standard_output_of_an_instance_carries_its_name(models: Models) -> None:
    ended = models.run(models.write({"a": SEND, "b": RECEIVE}))
    assert ended.out.splitlines() == ["b | 0.0", "b | 1.0", "b | 2.0"]
    assert (ended.folder / "instances/b/stdout").read_text() == "0.0\n1.0\n2.0\n"


#: Leaves the instance of its parent by an exception, in a child after fork, before the parent goes on.
FORKING = """import os, sys, xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            child = os.fork()
            if child == 0:
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            me.send("o", t)
"""


@pytest.mark.parametrize("method", ["shm", "tcp"])
def test_a_child_after_fork_that_fails_is_no_failure_of_the_instance(models: Models, method: str) -> None:
    ended = models.run(models.write({"a": FORKING, "b": RECEIVE}, run=f'run:methods="{method}"'))
    assert ended.status == 0, ended.err
    last = json.loads((ended.folder / "events.jsonl").read_text().splitlines()[-1])
    assert last["instances"]["b"]["messages_received"] == 3
