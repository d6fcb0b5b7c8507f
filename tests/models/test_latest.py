"""Couplings of which a reader sees the newest message only, in whole runs."""

from __future__ import annotations

import re
from pathlib import Path

import compiled
import fortran
import pytest
from every_language import LANGUAGES, java_program
from gates import awaits, says
from model_runs import Run, run_document
from pool_models import model_of

PROGRAMS = Path(__file__).parent / "latest"
PORTS = {"Writer": '<out id="fields"/>', "Reader": '<in id="fields"/>'}
INSTANCES = '<instance id="w" submodel="Writer"/><instance id="r" submodel="Reader"/>'
LATEST = '<coupling from="w.fields" to="r.fields" run:kind="latest"/>'

#: Sends as fast as it can; says how much memory that has taken.
WRITER = """
import resource, time, numpy as np, xmml
def memory_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
with xmml.Instance() as me:
    while me.reuse():
        field = np.zeros(500_000)
        for number in range(200):
            if number == 10:
                before = memory_mb()
            field[:] = number
            me.send("fields", field, timestamp=number)
            time.sleep(0.001)
        print(memory_mb() - before)
"""
#: Takes its time, and prints which it has seen.
READER = """
import time, xmml
with xmml.Instance() as me:
    while me.reuse():
        while True:
            try:
                field = me.receive("fields")
            except xmml.EndedError:
                break
            assert (field.data == field.timestamp).all()
            print(int(field.timestamp), flush=True)
            time.sleep(0.02)
"""


def run_of(folder: Path, writer: str, reader: str, status: int = 0, couplings: str = LATEST) -> Run:
    model = model_of(folder / "model", {"Writer": writer, "Reader": reader}, INSTANCES, couplings, PORTS)
    return run_document(model, folder=folder / "run", status=status)


@pytest.mark.parametrize("method", ["inproc", "shm", "unix", "tcp"])
def test_a_slow_reader_sees_newer_and_newer_messages_and_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    if method != "inproc":
        monkeypatch.setenv("XMML_METHODS", method)
    many_are_sent = tmp_path / "sent"
    writer = WRITER.replace(
        "time.sleep(0.001)", f"time.sleep(0.001)\n            if number == 100: {says(many_are_sent)}"
    )
    run = run_of(tmp_path, writer, READER.replace("time.sleep(0.02)", awaits(many_are_sent)))
    seen = [int(line) for line in run.lines("r")]
    assert seen == sorted(set(seen))
    assert seen[-1] == 199
    assert len(seen) < 110
    told = f"w.fields -> r.fields: {200 - len(seen)} of 200 messages were replaced by newer ones"
    assert told in run.stderr
    assert f"{200 - len(seen)} of 200 messages were replaced by newer ones" in (run.folder / "report.html").read_text()
    assert float(run.lines("w")[0]) < 20, "MB more than after ten messages of 4 MB; 800 MB were sent"


def test_a_reader_that_never_reads_holds_up_nobody(tmp_path: Path) -> None:
    idle = "import xmml\nwith xmml.Instance() as me:\n    while me.reuse():\n        pass\n"
    run = run_of(tmp_path, WRITER, idle)
    assert len(run.lines("w")) == 1


def test_a_program_that_does_not_wait_goes_on_with_what_it_has(tmp_path: Path) -> None:
    goes_on = [tmp_path / f"goes-on-with-{speed}" for speed in range(4)]
    steering = f"""
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                {awaits(goes_on[0])}
                me.send("fields", 1)
                {awaits(goes_on[1])}
                me.send("fields", 2)
                {awaits(goes_on[2])}
                me.send("fields", 3)
    """
    steered = f"""
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                speed, seen = 0, []
                while True:
                    try:
                        speed = me.receive("fields", timeout=0).data
                    except xmml.ReceiveTimeoutError:
                        pass
                    except xmml.EndedError:
                        break
                    if speed not in seen:
                        seen.append(speed)
                        open(f"{tmp_path}/goes-on-with-{{speed}}", "w").close()
                    time.sleep(0.01)
                print(*seen)
    """
    assert run_of(tmp_path, steering, steered).lines("r") == ["0 1 2 3"]


def test_one_port_sends_every_message_to_one_and_the_newest_to_others(tmp_path: Path) -> None:
    writer = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for t in me.steps():
                    me.send("fields", t)
    """
    every = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for t in me.steps():
                    print(me.receive("fields").data)
    """
    newest = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                try:
                    while True:
                        print(me.receive("fields").data)
                except xmml.EndedError:
                    pass
    """
    ports = {
        "Writer": '<out id="fields" operator="Oi"/>',
        "Every": '<in id="fields" operator="S"/>',
        "Newest": '<in id="fields"/>',
    }
    instances = (
        '<instance id="w" submodel="Writer"/><instance id="e" submodel="Every"/>'
        '<instance id="n" submodel="Newest" multiplicity="2"/>'
    )
    couplings = '<coupling from="w.fields" to="e.fields"/><coupling from="w.fields" to="n.fields" run:kind="latest"/>'
    model = model_of(
        tmp_path / "model", {"Writer": writer, "Every": every, "Newest": newest}, instances, couplings, ports
    )
    run = run_document(model, folder=tmp_path / "run")
    assert run.lines("e") == ["0.0", "1.0", "2.0", "3.0"]
    for copy in (0, 1):
        seen = run.lines(f"n[{copy}]")
        assert seen == sorted(set(seen))
        assert seen[-1] == "3.0"


def program(language: str) -> str:
    """The attributes of an implementation that prints what it sees."""
    if language == "java":
        return java_program(PROGRAMS / "Newest.java")
    if language == "python":
        return f'language="python" path="{PROGRAMS / "newest.py"}"'
    if language == "fortran":
        return f'path="{fortran.compiled(PROGRAMS / "newest.f90")}"'
    return f'path="{compiled.compiled(PROGRAMS / f"newest.{language}")}"'


def test_readers_in_every_language_see_newer_and_newer_messages_and_the_last_one(tmp_path: Path) -> None:
    writer = f"""
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for reader in range({len(LANGUAGES)}):
                    me.receive("ready")
                for number in range(100):
                    me.send("fields", number)
                    time.sleep(0.0005)
    """
    instances, couplings = '<instance id="w" submodel="Writer"/>', ""
    for language in LANGUAGES:
        instances += f'<instance id="{language}" submodel="In_{language}"/>'
        couplings += f'<coupling from="w.fields" to="{language}.fields" run:kind="latest"/>'
        couplings += f'<coupling from="{language}.ready" to="w.ready" run:kind="pool"/>'
    model = model_of(
        tmp_path / "model",
        {"Writer": writer},
        instances,
        couplings,
        {"Writer": '<in id="ready"/><out id="fields"/>'},
    )
    definitions = "".join(
        f'<submodel id="In_{language}"><timescale delta="1 s" total="4 s"/>'
        f'<ports><in id="fields"/><out id="ready"/></ports><implementation {program(language)}/></submodel>'
        for language in LANGUAGES
    )
    model.write_text(model.read_text().replace("</definitions>", f"{definitions}</definitions>"))
    run = run_document(model, folder=tmp_path / "run")
    for language in LANGUAGES:
        seen = [int(line) for line in run.lines(language)]
        assert seen == sorted(set(seen)), language
        assert seen[-1] == 99, language


KILLS_ITSELF = """
import os, signal, xmml
with xmml.Instance() as me:
    while me.reuse():
        {}
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_fails_the_run_by_name(tmp_path: Path) -> None:
    is_seen = tmp_path / "seen"
    writer = KILLS_ITSELF.format(f"me.send('fields', 1)\n        {awaits(is_seen)}")
    reader = READER.replace("assert", "True or").replace("time.sleep(0.02)", says(is_seen))
    run = run_of(tmp_path, writer, reader, status=4)
    assert "w failed" in run.stderr
    assert "SIGKILL" in run.stderr
    assert run.lines("r") == ["0"]


def test_a_reader_that_is_killed_fails_the_run_by_name(tmp_path: Path) -> None:
    writer = """
        import time, xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(100_000):
                    me.send("fields", number)
                    time.sleep(0.01)
    """
    run = run_of(tmp_path, writer, KILLS_ITSELF.format("me.receive('fields')"), status=4)
    assert "r failed" in run.stderr
    assert "SIGKILL" in run.stderr


def circle(folder: Path, program: str) -> Path:
    """Two instances of a program, each of which sees the newest of the other."""
    couplings = "".join(
        f'<coupling from="{one}.out" to="{other}.into" run:kind="latest"/>' for one, other in ("ab", "ba")
    )
    instances = "".join(f'<instance id="{name}" submodel="Both"/>' for name in "ab")
    return model_of(folder, {"Both": program}, instances, couplings, {"Both": '<out id="out"/><in id="into"/>'})


def test_two_that_wait_for_each_others_first_message_are_in_a_deadlock(tmp_path: Path) -> None:
    program = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.receive("into")
                me.send("out", 1)
    """
    run = run_document(circle(tmp_path / "model", program), folder=tmp_path / "run", status=6)
    assert "a waits at into for the first object of b.out" in run.stderr
    assert "b waits at into for the first object of a.out" in run.stderr
    assert re.search(r"warning\[W19\]: b may wait for a newer message of a, and a for b", run.stderr)


def test_two_that_wait_for_something_newer_of_each_other_are_in_a_deadlock(tmp_path: Path) -> None:
    program = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                me.send("out", 1)
                me.receive("into")
                me.receive("into")
    """
    run = run_document(circle(tmp_path / "model", program), folder=tmp_path / "run", status=6)
    assert "a waits at into for a newer object of b.out" in run.stderr
    assert "b waits at into for a newer object of a.out" in run.stderr


def test_two_that_answer_each_other_by_the_newest_are_in_no_deadlock(tmp_path: Path) -> None:
    program = """
        import xmml
        with xmml.Instance() as me:
            while me.reuse():
                for number in range(2000):
                    if me.name == "a":
                        me.send("out", number)
                    assert me.receive("into").data == number
                    if me.name == "b":
                        me.send("out", number)
                print("done")
    """
    run = run_document(circle(tmp_path / "model", program), folder=tmp_path / "run")
    assert run.lines("a") == run.lines("b") == ["done"]
