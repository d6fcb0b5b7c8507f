"""Instances that share a process, as a user sees them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import XMML
from model_runs import Run, RunModel
from wan.soak import LONG

MODULE = """import os, resource, signal, sys, threading, time

import xmml

seen = []


class Member(xmml.Submodel):
    def run(self):
        me, what = self.me, self.me.param("do")
        getattr(self, what)() if me.name == "b" else None
        while me.reuse():
            for _ in me.steps():
                me.send("o", me.index)
                me.receive("i")

    def nothing(self):
        pass

    def fail(self):
        raise ValueError("negative depth")

    def exit(self):
        sys.exit(3)

    def exit_with_words(self):
        sys.exit("no more of this")

    def end_well(self):
        sys.exit(0)

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def exit_at_once(self):
        os._exit(7)

    def talk(self):
        print("from", self.me.name)
        print("an error", file=sys.stderr)
        sys.stdout.write("no end of line")
        thread = threading.Thread(target=lambda: print("\\nfrom a thread of", self.me.name))
        thread.start()
        thread.join()
        os.write(1, b"straight to the descriptor\\n")

    def write_file(self):
        with open("result.txt", "w") as file:
            file.write(os.getcwd())

    def have_its_process_write_to_a_full_disk(self):
        resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (10, 10))
        os.write(1, b"straight to the descriptor\\n")

    def remember(self):
        seen.append(self.me.name)
"""


#: How many instances run at once that have next to nothing to do.
LIGHT = 2000 if LONG else 500


def ring(folder: Path, do: str = "nothing", extra: str = "", names: Sequence[str] = "abcd") -> Path:
    """A ring of instances of one class, four unless others are named; `b` does something else first."""
    folder.mkdir(parents=True)
    (folder / "member.py").write_text(MODULE)
    instances = "".join(
        f'<instance id="{name}" submodel="Member" init="yes"{extra if name == "b" else ""}/>' for name in names
    )
    couplings = "".join(
        f'<coupling from="{one}.o" to="{other}.i"/>' for one, other in zip(names, [*names[1:], names[0]], strict=True)
    )
    (folder / "model.xmml").write_text(
        '<model id="ring" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        '<definitions><submodel id="Member" class="member:Member"><timescale delta="1 s" total="20 s"/>'
        f'<param id="do" value="{do}"/><ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports></submodel>'
        f"</definitions><topology>{instances}{couplings}</topology></model>"
    )
    return folder


def processes(run: Run) -> dict[str, int]:
    """The process of each instance."""
    return {each["instance"]: each["pid"] for each in run.events() if each["what"] == "started" and each["instance"]}


@pytest.mark.parametrize(("hosts", "expected"), [("1", 1), ("2", 2), ("0", 4)])
def test_so_many_processes_as_are_asked_for(tmp_path: Path, run_model: RunModel, hosts: str, expected: int) -> None:
    run = run_model(ring(tmp_path / "as written/ring"), "--hosts", hosts)
    assert len(set(processes(run).values())) == expected
    assert {row["messages_received"] for row in run.report["instances"].values()} == {20}


def test_very_many_light_instances_run_at_once(tmp_path: Path, run_model: RunModel) -> None:
    names = [f"i{number}" for number in range(LIGHT)]
    run = run_model(ring(tmp_path / "as written/ring", names=names), "--hosts", "2")
    assert len(run.report["instances"]) == LIGHT
    assert {row["messages_received"] for row in run.report["instances"].values()} == {20}
    assert len(set(processes(run).values())) == 2


def test_messages_within_a_process_are_handed_over(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring"), "--hosts", "1")
    assert '"inproc"' in (run.folder / "events.jsonl").read_text()
    assert '"shm"' not in (run.folder / "events.jsonl").read_text()


def test_an_instance_can_have_a_process_of_its_own(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", extra=' run:host="own"'), "--hosts", "1")
    found = processes(run)
    assert found["a"] == found["c"] == found["d"] != found["b"]


def test_what_an_instance_prints_is_its_own(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", "talk"), "--hosts", "1")
    assert run.lines("b") == ["from b", "no end of line", "from a thread of b"]
    assert (run.folder / "instances/b/stderr").read_text() == "an error\n"
    assert run.output("a") == run.output("c") == ""
    assert (run.folder / "hosts/1/stdout").read_text() == "straight to the descriptor\n"


def test_a_log_of_the_process_that_cannot_be_written_ends_the_run(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(
        ring(tmp_path / "as written/ring", "have_its_process_write_to_a_full_disk"), "--hosts", "1", status=5
    )
    assert run.report["reason"].startswith(
        f"the run folder cannot be written: {run.folder}/hosts/1/stdout: File too large"
    )


def test_an_instance_has_its_own_working_folder(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", "write_file"), "--hosts", "1")
    assert (run.work("b") / "result.txt").read_text() == str(run.work("b"))


def test_an_exception_names_the_instance_and_fails_the_run(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", "fail"), "--hosts", "1", status=4)
    assert run.report["reason"].startswith("b failed: ValueError: negative depth at ")
    assert "member.py:" in run.report["reason"]
    assert run.report["log"] == "instances/b/stderr"
    words = (run.folder / "instances/b/stderr").read_text()
    assert words.startswith("Traceback")
    assert "shared_host.py" not in words
    assert run.report["instances"]["a"]["state"] == "stopped"


@pytest.mark.parametrize(("do", "words"), [("exit", "exit with status 3"), ("exit_with_words", "no more of this")])
def test_to_exit_counts_for_the_one_that_does(tmp_path: Path, run_model: RunModel, do: str, words: str) -> None:
    run = run_model(ring(tmp_path / "as written/ring", do), "--hosts", "1", status=4)
    assert "b failed" in run.report["reason"]
    assert words in run.report["reason"]


def test_an_instance_that_ends_well_leaves_the_others_alone(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", "end_well"), "--hosts", "1", status=4)
    # Its partner lacks a message then: that is the partner's own failure, not the end of the process.
    assert run.report["instance"] == "c"
    assert run.report["instances"]["b"]["state"] == "done"


@pytest.mark.parametrize(("do", "how"), [("die", "was killed by SIGKILL"), ("exit_at_once", "exit status 7")])
def test_the_end_of_a_process_names_all_that_were_in_it(tmp_path: Path, run_model: RunModel, do: str, how: str) -> None:
    run = run_model(ring(tmp_path / "as written/ring", do), "--hosts", "1", status=4)
    assert how in run.report["reason"]
    named = run.report["reason"].partition("failed")[0] + run.report["reason"].rpartition("ended ")[2]
    assert all(name in named for name in "abcd"), run.report["reason"]


def test_status_says_who_shares_a_process(tmp_path: Path, run_model: RunModel) -> None:
    run = run_model(ring(tmp_path / "as written/ring", extra=' run:host="own"'), "--hosts", "1")
    rows = run.report["instances"]
    assert [rows[name]["process"] for name in "abcd"] == ["hosts/1", None, "hosts/1", "hosts/1"]
    said = subprocess.run([XMML, "status", str(run.folder)], capture_output=True, text=True, check=True)
    lines = said.stdout.splitlines()
    assert [line.endswith("(hosts/1)") for line in lines[1:5]] == [True, False, True, True]
