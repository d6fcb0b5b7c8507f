"""Asking a run that goes on how its conduits travel, and having them travel otherwise."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import XMML, XMML_RUN
from waiting import LIMIT_S, wait_until
from xmml_run.conduit_table import amount, conduit_lines, duration

MODEL = """\
<model id="stream" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="A"><timescale delta="1 s" total="10000000 s"/>
      <ports><out id="o" operator="Oi"/></ports>
      <implementation language="python" path="a.py"/></submodel>
    <submodel id="B"><timescale delta="1 s" total="10000000 s"/>
      <ports><in id="i" operator="S"/></ports>
      <implementation language="python" path="b.py"/></submodel>
  </definitions>
  <topology>
    <instance id="a" submodel="A" run:steps="until"/> <instance id="b" submodel="B" run:steps="until"/>
    <coupling from="a.o" to="b.i"/>
  </topology>
</model>
"""
A = """\
import os, xmml
with xmml.Instance() as me:
    while me.reuse():
        for number, t in enumerate(me.steps()):
            me.send("o", number)
            if os.path.exists(os.path.join(os.environ["XMML_MODEL_DIR"], "stop")):
                break
"""
B = """\
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for number, t in enumerate(me.steps()):
            message = me.receive_or_end("i")
            if message is None:
                break
            assert message.data == number, (message.data, number)
"""


def xmml(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([XMML, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S)


def conduit(run: Path) -> dict[str, Any]:
    answer = json.loads(xmml("status", run, "--json").stdout)
    row: dict[str, Any] = answer["conduits"][0]
    return row


def has_received(run: Path) -> bool:
    return (run / "plan.json").exists() and (conduit(run)["received"] or 0) > 0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """The folder of a run that goes on until the fixture ends it; then it must have ended well."""
    (tmp_path / "model.xml").write_text(MODEL)
    (tmp_path / "a.py").write_text(A)
    (tmp_path / "b.py").write_text(B)
    folder = tmp_path / "run"
    command = [XMML_RUN, str(tmp_path / "model.xml"), "-o", str(folder), "-q"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: process.poll() is not None or has_received(folder), "nothing is received")
        assert process.poll() is None, process.communicate()[0]
        yield folder
        (tmp_path / "stop").touch()
        said, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.wait()


def test_a_run_that_goes_on_tells_how_its_conduits_travel_and_changes_them(run: Path) -> None:
    row = conduit(run)
    assert row["method"] == "shm"
    assert "inproc" in row["refused"]
    assert "tcp" in row["slower"]
    changed = xmml("methods", run, "a.o", "b", "--set", "tcp", "--json")
    assert changed.returncode == 0, changed.stderr
    assert json.loads(changed.stdout)["conduits"][0]["method"] == "tcp"
    after = wait_until(lambda: moving(conduit(run)), "no rate is said of messages that are sent")
    assert after["method"] == "tcp"
    assert after["sent"] > row["sent"]
    said = xmml("status", run).stdout
    assert "a.o -> b.i" in said
    assert "tcp" in said
    assert "inproc, shm, unix refused: this conduit may only use tcp" in said


def moving(row: dict[str, Any]) -> dict[str, Any] | None:
    """The row if something has been carried lately, which a busy machine may put off."""
    return row if row["bytes_per_s"] > 0 else None


def test_a_method_that_does_not_exist_is_refused_with_a_suggestion(run: Path) -> None:
    refused = xmml("methods", run, "--set", "tpc")
    assert refused.returncode == 2
    assert 'did you mean "tcp"' in refused.stderr or "tcp" in refused.stderr


def test_the_table_says_what_is_known_and_why_others_were_refused() -> None:
    row = {
        "name": "a.o -> b.i",
        "method": "tcp",
        "protected": False,
        "refused": {"shm": "another host"},
        "sent": 1200,
        "received": 1100,
        "bytes": 3 << 20,
        "bytes_per_s": 2048.0,
        "latency_s": 12e-6,
        "replaced": 0,
        "dropped": 0,
        "waiting": 0,
        "held_bytes": 4096,
    }
    titles, line, why = conduit_lines([row])
    assert titles.split() == ["conduit", "method", "sent", "taken", "bytes", "held", "rate", "latency"]
    assert line.split()[:6] == ["a.o", "->", "b.i", "tcp", "1,200", "1,100"]
    assert line.split()[6:] == ["3.0", "MiB", "4.0", "KiB", "2.0", "KiB/s", "12.0", "us"]
    assert why.strip() == "shm refused: another host"
    assert "  tcp, protected  " in conduit_lines([{**row, "protected": True}])[1]
    _, _, _, *became = conduit_lines([{**row, "dropped": 18, "waiting": 1203}])
    assert [line.strip() for line in became] == [
        "18 were dropped: the receiver had left, or was too slow and may lose some",
        "1,203 objects wait until a reader has room",
    ]


def test_amounts_and_times_have_units_that_suit_them() -> None:
    assert [amount(5), amount(5 << 30)] == ["5 B", "5.0 GiB"]
    assert [duration(None), duration(2.0), duration(3e-3)] == ["-", "2.0 s", "3.0 ms"]
