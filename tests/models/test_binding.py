"""Which cores the programs of a run are bound to, as the kernel sees it.

Each test has leases of its own, as if it had a machine of its own: other runs go on beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import XMML, XMML_RUN
from gates import awaits, says
from machines import describe
from model_runs import Run, environment, run_document
from needs import needs
from waiting import RUN_LIMIT_S, wait_until
from xmml_executors.binding.topology import FOLDER_VARIABLE, cpu_text

OURS = sorted(os.sched_getaffinity(0))
needs_two_cpus = pytest.mark.skipif(len(OURS) < 2, reason="needs two CPUs")

#: Says which CPUs the kernel lets it use, and how threads are told to stay on them.
PROGRAM = """import os, xmml
with xmml.Instance() as me:
    while me.reuse():
        for port in me.ports.values():
            if port.operator == "Of":
                me.send(port.name, 1.0)
            else:
                me.receive(port.name)
        @WAIT@
        status = open("/proc/self/status").read()
        print(status.partition("Cpus_allowed_list:")[2].split()[0], os.environ.get("OMP_PLACES"))
"""
MODEL = """<model id="pair" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="A">
      <timescale delta="1 s" total="1 s"/>
      <ports><out id="x" operator="Of"/></ports>
      <implementation language="python" path="program.py" @A@/>
    </submodel>
    <submodel id="B">
      <timescale delta="1 s" total="1 s"/>
      <ports><in id="x" operator="finit"/></ports>
      <implementation language="python" path="program.py" @B@/>
    </submodel>
  </definitions>
  <topology><instance id="a" submodel="A"/><instance id="b" submodel="B"/><coupling from="a.x" to="b.x"/></topology>
</model>
"""


@dataclass(frozen=True)
class Pair:
    """A model of two coupled programs, and a machine whose leases no other test has."""

    folder: Path
    machine: Path

    def written(self, name: str, a: str = "", b: str = "", wait: str = "pass") -> Path:
        """Write the model, with attributes of the two implementations, into a folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "program.py").write_text(PROGRAM.replace("@WAIT@", wait))
        (folder / "model.xmml").write_text(MODEL.replace("@A@", a).replace("@B@", b))
        return folder / "model.xmml"

    @property
    def env(self) -> dict[str, str]:
        """The environment of a run on that machine."""
        return environment() | {FOLDER_VARIABLE: str(self.machine)}

    def run(self, *options: str, status: int = 0, env: Mapping[str, str] | None = None, **written: str) -> Run:
        """Run the model to its end."""
        document = self.written(written.pop("name", "pair"), **written)
        return run_document(document, *options, env={FOLDER_VARIABLE: str(self.machine), **(env or {})}, status=status)

    @contextlib.contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """A run whose instances have started and do not end."""
        begun, goes_on = self.folder / "begun", self.folder / "goes on"
        document = self.written("other", wait=f"{says(begun)}\n        {awaits(goes_on)}")
        command = [XMML_RUN, str(document), "-q", "-o", str(self.folder / "other run"), *options]
        with subprocess.Popen(command, cwd=document.parent, env=self.env) as process:
            try:
                wait_until(begun.exists, "the other run has not begun")
                yield process
            finally:
                goes_on.touch()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, describe(tmp_path / "devices", [(cpu,) for cpu in OURS]))


#: `xmml-run` on a machine that is not busy when the run begins.
QUIET = """from xmml_executors.binding import process_binding
from xmml_run.main import xmml_run
process_binding.why_busy = lambda: ""
raise SystemExit(xmml_run())
"""


def run_quietly(pair: Pair, document: Path, *options: str) -> Run:
    """Run a model as if the machine were not busy at the beginning."""
    folder = pair.folder / "quiet run"
    command = [sys.executable, "-c", QUIET, str(document), "--json", "-o", str(folder), *options]
    done = subprocess.run(
        command, cwd=document.parent, env=pair.env, capture_output=True, text=True, timeout=RUN_LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return Run(0, json.loads(done.stdout), folder, document.parent, done.stderr)


def bound(run: Run) -> dict[str, str]:
    """Return the CPUs that each instance saw."""
    return {name: run.output(name).split()[0] for name in ("a", "b")}


def events(run: Run, what: str) -> list[dict[str, object]]:
    return [event for event in run.events() if event["what"] == what]


@needs_two_cpus
def test_coupled_programs_have_a_core_each(pair: Pair) -> None:
    run = pair.run("--bind", "core")
    assert bound(run) == {"a": str(OURS[0]), "b": str(OURS[1])}


@needs_two_cpus
def test_coupled_programs_have_cores_of_their_own_without_being_asked(pair: Pair) -> None:
    run = run_quietly(pair, pair.written("pair"))
    assert not set(bound(run)["a"].split(",")) & set(bound(run)["b"].split(","))
    assert sorted(bound(run).values()) == sorted(events(run, "bound")[0]["cpus"].values())  # type: ignore[attr-defined]


@needs_two_cpus
def test_programs_whose_cores_others_use_are_bound_no_longer(pair: Pair) -> None:
    unbound = f"while len(os.sched_getaffinity(0)) < {len(OURS)}: pass"
    loops = [
        subprocess.Popen([sys.executable, "-c", f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"])
        for cpu in OURS
    ]
    try:
        run = run_quietly(pair, pair.written("pair", wait=unbound))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert bound(run) == dict.fromkeys("ab", cpu_text(OURS))
    (reason,) = (str(event["reason"]) for event in events(run, "not bound"))
    assert re.match(r"[ab] waited for its cores for \d+% of \d+\.\d s: other programs use them, too", reason)
    assert {row["cpus"] for row in run.report["instances"].values()} == {None}
    assert "not bound to cores" not in run.stderr


@needs_two_cpus
def test_threads_of_a_bound_program_stay_on_its_cores(pair: Pair) -> None:
    assert pair.run("--bind", "core", env={"OMP_PLACES": ""}).output("a").split()[1:] == []
    assert pair.run("--bind", "core", name="second").output("a").split()[1] == "cores"


def test_programs_are_not_bound_if_the_user_says_so(pair: Pair) -> None:
    run = pair.run("--bind", "none", a='run:bind="core"', b='run:bind="core"')
    assert bound(run) == dict.fromkeys("ab", cpu_text(OURS))
    assert not events(run, "bound")


@needs_two_cpus
def test_the_model_says_what_a_program_is_bound_to(pair: Pair) -> None:
    run = pair.run(b=f'run:bind="{OURS[1]}"', a='run:bind="none"')
    assert bound(run) == {"a": cpu_text(OURS), "b": str(OURS[1])}


@needs_two_cpus
def test_programs_divide_a_list_of_cpus(pair: Pair) -> None:
    run = pair.run("--bind", f"{OURS[0]},{OURS[1]}")
    assert sorted(bound(run).values()) == [str(cpu) for cpu in OURS[:2]]


@needs_two_cpus
def test_programs_share_the_cores_of_a_node(pair: Pair) -> None:
    assert bound(pair.run("--bind", "numa")) == dict.fromkeys("ab", cpu_text(OURS))


@needs_two_cpus
def test_a_run_says_what_its_programs_are_bound_to(pair: Pair) -> None:
    run = pair.run("--bind", "core")
    cpus = {"a": str(OURS[0]), "b": str(OURS[1])}
    assert [event["cpus"] for event in events(run, "bound")] == [cpus]
    assert {name: row["cpus"] for name, row in run.report["instances"].items()} == cpus
    status = subprocess.run([XMML, "status", str(run.folder)], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^  b .* received, on CPU {OURS[1]}$", status, re.MULTILINE)
    assert f"<td>{OURS[1]}</td>" in (run.folder / "report.html").read_text()
    assert {each["bind"] for each in json.loads((run.folder / "plan.json").read_text())["instances"]} == {"core"}


@needs_two_cpus
def test_a_plan_is_bound_as_the_run_that_it_comes_from(pair: Pair) -> None:
    plan = pair.run("--bind", "core").folder / "plan.json"
    again = run_document(plan, folder=pair.folder / "again", env={FOLDER_VARIABLE: str(pair.machine)})
    assert bound(again) == {"a": str(OURS[0]), "b": str(OURS[1])}


@needs_two_cpus
def test_a_run_without_leases_is_not_bound_and_says_which_run_has_them(pair: Pair) -> None:
    with pair.running("--bind", ",".join(map(str, OURS))) as other:
        run = pair.run("--bind", "core")
    assert bound(run) == dict.fromkeys("ab", cpu_text(OURS))
    reason = f"2 processes need 2 cores; other runs have leased CPUs {cpu_text(OURS)} (process {other.pid})"
    assert [event["reason"] for event in events(run, "not bound")] == [reason]
    assert f"xmml-run: nothing is bound to cores: {reason}" in run.stderr
    status = subprocess.run([XMML, "status", str(run.folder)], capture_output=True, text=True, check=True).stdout
    assert f"  not bound to cores: {reason}\n" in status
    assert f"Not bound to cores: {reason}." in (run.folder / "report.html").read_text()


@needs_two_cpus
def test_a_killed_run_holds_no_cores(pair: Pair) -> None:
    with pair.running("--bind", ",".join(map(str, OURS))) as other:
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert bound(pair.run("--bind", "core")) == {"a": str(OURS[0]), "b": str(OURS[1])}


def test_a_run_with_one_cpu_is_not_bound_and_says_nothing_at_the_terminal(pair: Pair) -> None:
    os.sched_setaffinity(0, OURS[:1])
    try:
        run = pair.run("--quiet")
    finally:
        os.sched_setaffinity(0, OURS)
    assert bound(run) == dict.fromkeys("ab", str(OURS[0]))
    reason = "2 processes need 2 cores, and there is 1"
    assert [event["reason"] for event in events(run, "not bound")] == [reason]
    assert run.stderr == ""


@pytest.mark.parametrize(("wish", "processes"), [("none", {"hosts/1"}), ("core", {None})])
def test_instances_that_are_bound_share_no_process(pair: Pair, wish: str, processes: set[str | None]) -> None:
    document = pair.written("shared")
    (document.parent / "classes.py").write_text("class A: ...\nclass B: ...\n")
    hosted = re.sub(r'<submodel id="(\w)">', r'<submodel id="\1" class="classes:\1">', MODEL)
    document.write_text(re.sub("<implementation .*/>", "", hosted))
    command = [XMML_RUN, str(document), "--dry-run", "--json", "--hosts", "1", "--bind", wish]
    told = subprocess.run(command, cwd=document.parent, env=pair.env, capture_output=True, text=True, check=True)
    assert {each["process"] for each in json.loads(told.stdout)["plan"]["instances"]} == processes


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_cpu_that_is_not_there_is_wrong_usage(pair: Pair, more: tuple[str, ...]) -> None:
    run = pair.run("--bind", "8000", *more, status=2)
    assert "xmml-run: --bind 8000: CPU 8000 is not there, or not for this process, which may use CPU" in run.stderr
    assert "--bind none binds nothing" in run.stderr


def test_a_cpu_that_the_model_names_and_is_not_there_is_an_error_of_the_model(pair: Pair) -> None:
    run = pair.run(status=1, b='run:bind="8000"')
    assert "model.xmml:11:" in run.stderr
    assert 'instance "b" has run:bind="8000": CPU 8000 is not there' in run.stderr


def test_a_list_that_is_none_is_refused(pair: Pair) -> None:
    assert 'argument --bind: "0-x": "0-x" is neither a CPU nor a range' in pair.run("--bind", "0-x", status=2).stderr
    assert "'cores'" not in (said := pair.run("--bind", "cores", status=2, name="second").stderr)
    assert "expected none, core, numa, or a list of CPUs" in said
    wrong = pair.run(status=1, name="third", b='run:bind="fast"')
    assert 'run:bind="fast" is not possible' in wrong.stderr


@needs("mpirun")
@needs_two_cpus
def test_the_ranks_of_a_bound_mpi_program_keep_to_its_cores(pair: Pair) -> None:
    run = pair.run("--bind", "core", b='run:mpi="1"')
    assert bound(run) == {"a": str(OURS[0]), "b": str(OURS[1])}
