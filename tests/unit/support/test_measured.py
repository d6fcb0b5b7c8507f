"""What tests have measured is shown at the end, also when they run in several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).resolve().parents[2] / "support"
TESTS = """
def test_cut(record_property):
    record_property("recovery_s", 9.0)
    record_property("recovery_s", 0.5)
    record_property("messages", 1234)
    record_property("packets_lost", 7)

def test_killed(record_property):
    record_property("faults", 3)
    assert False

def test_that_measures_nothing():
    pass
"""


def test_what_tests_have_measured_is_a_table_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "test_faults.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-p", "measured", "-c", os.devnull, "--rootdir", tmp_path, tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "COLUMNS": "200"}
    done = subprocess.run([*words, "--numprocesses=2"], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    _, _, table = done.stdout.partition("what was measured")
    lines = [line.split() for line in table.splitlines() if line.startswith("test")]
    assert lines[0] == ["test", "messages", "faults", "recovery_s", "duration_s", "further"]
    assert sorted(lines[1:]) == [
        ["test_faults.py::test_cut", "1234", "9.00/0.50", "0.0", "packets_lost=7"],
        ["test_faults.py::test_killed", "3", "0.0"],
    ]


def test_nothing_is_said_where_nothing_was_measured(tmp_path: Path) -> None:
    (tmp_path / "test_faults.py").write_text("def test_that_measures_nothing(): pass")
    words = [sys.executable, "-m", "pytest", "-p", "measured", "-c", os.devnull, "--rootdir", tmp_path, tmp_path]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "measured" not in done.stdout
