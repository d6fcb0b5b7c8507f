"""Acceptance models over two and three relays of which only the middle one can be dialled: the same results as here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from relayed import CLOSED_SITES, RUN, RelayAt
from waiting import wait_until
from wan import MachineProcess, Wan, why_not

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(900),
]

MODELS = Path(__file__).resolve().parents[2] / "models"
TOOLS = str(Path(sys.executable).parent)
XMML_RUN = str(Path(TOOLS) / "xmml-run")
#: A run, or the build of a model, takes far less.
LIMIT_S = 300.0
#: The instances that run elsewhere, by model.
ELSEWHERE = {
    "macro_micro": ["micro"],  # call and release
    "carried_state": ["micro", "native"],  # one port that sends to two receivers
    "data_integrity": ["bounce"],  # every type, up to large arrays
    "ping_pong": ["pong"],  # messages of many sizes there and back, a hundred times
    "triangle": ["two"],  # a circle that leaves the site and comes back
}


def environment(relay: str | None = None) -> dict[str, str]:
    more = {} if relay is None else {"XMML_RELAY": relay}
    return {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}", **more}


def printed_by(folder: Path) -> dict[str, str]:
    """What each instance of a run has printed, apart from those that were started by hand."""
    return {path.parent.name: path.read_text() for path in folder.glob("instances/*/stdout")}


@pytest.fixture(scope="module")
def wan() -> Any:
    with Wan(CLOSED_SITES, rtt_s=0.01, rate_bit_s=1e9) as wan:
        yield wan


@dataclass(frozen=True)
class Local:
    """A model that has been built and run on this machine; `printed` is what each instance has written there."""

    model: str
    document: Path
    printed: dict[str, str]


@pytest.fixture(scope="module", params=list(ELSEWHERE))
def local(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Local:
    model: str = request.param
    folder = tmp_path_factory.mktemp(model)
    ignored = shutil.ignore_patterns("build", "runs", "__pycache__")
    document = Path(shutil.copytree(MODELS / model, folder / model, ignore=ignored)) / "model.xmml"
    words = [XMML_RUN, document, "-o", folder / "run", "--hosts", "0"]
    subprocess.run(words, env=environment(), capture_output=True, check=True, timeout=LIMIT_S)
    return Local(model, document, printed_by(folder / "run"))


@pytest.mark.parametrize("far", ["b", "c"], ids=["two relays", "three relays"])
def test_a_model_over_relays_gives_the_same_as_here(local: Local, far: str, wan: Wan, tmp_path: Path) -> None:
    secret = tmp_path / "run.secret"
    secret.touch(mode=0o600)
    secret.write_text(os.urandom(32).hex())
    relays: dict[str, RelayAt] = {}
    started: list[MachineProcess] = []
    output: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    try:
        for name in dict.fromkeys(("b", "a", far)):
            links = [relays["b"].address] if name != "b" else []
            relays[name] = RelayAt(wan[name], secret, links, tmp_path)
        relays["a"].await_sites("b", far)
        relays[far].await_sites("a")
        names = ELSEWHERE[local.model]
        words = [XMML_RUN, local.document, "-o", tmp_path / "there", "--hosts", "0", "--relay", relays["a"].found_at]
        words += ["--run", f"{RUN}={secret}", *(word for name in names for word in ("--by-hand", name))]
        run = wan["a"].node(1).start(words, env=environment(), **output)
        started.append(run)
        wait_until(
            lambda: run.poll() is not None or "coordinator" in relays["a"].status()["runs"][RUN]["names"],
            "the coordinator is there",
        )
        assert run.stderr is not None
        lines: list[str] = []
        while len(lines) < len(names):
            line = run.stderr.readline()
            assert line, lines
            lines += re.findall(r"^xmml-run:   (XMML_COORDINATOR=.*)", line)
        for number, line in enumerate(lines):
            folder = tmp_path / f"terminal{number}"
            folder.mkdir()
            typed = ["bash", "-c", line]
            there = environment(relays[far].found_at)
            started.append(wan[far].node(1).start(typed, env=there, cwd=folder, **output))
        by_hand = {}
        for name, process in zip(sorted(names), started[1:], strict=True):
            text, errors = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, errors
            by_hand[name] = text
        text, errors = run.communicate(timeout=LIMIT_S)
        assert run.returncode == 0, text + errors
        passed = relays[far].status()["runs"][RUN]
        assert passed["opened"] > 0
        assert passed["bytes"] > 0
    finally:
        for process in started:
            process.kill()
            process.communicate()
        for relay in relays.values():
            relay.kill()
    assert {**printed_by(tmp_path / "there"), **by_hand} == local.printed
