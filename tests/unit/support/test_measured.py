"""What tests have measured is shown at the end, also when they run in several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from measured import table

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


def printed(tests: str, folder: Path, expected_status: int) -> str:
    """Return what pytest prints of these tests."""
    (folder / "test_faults.py").write_text(tests)
    words = [sys.executable, "-m", "pytest", "-p", "measured", "-c", os.devnull, "--rootdir", folder, folder]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "COLUMNS": "200"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == expected_status, done.stdout + done.stderr
    return done.stdout


def test_what_tests_have_measured_is_a_table_at_the_end(tmp_path: Path) -> None:
    _, _, measured = printed(TESTS, tmp_path, 1).partition("what was measured")
    lines = [line.split() for line in measured.splitlines() if line.startswith("test")]
    assert lines[0] == ["test", "messages", "faults", "recovery_s", "duration_s", "further"]
    assert sorted(lines[1:]) == [
        ["test_faults.py::test_cut", "1234", "9.00/0.50", "0.0", "packets_lost=7"],
        ["test_faults.py::test_killed", "3", "0.0"],
    ]


def test_nothing_is_said_where_nothing_was_measured(tmp_path: Path) -> None:
    assert "measured" not in printed("def test_that_measures_nothing(): pass", tmp_path, 0)


def test_reports_of_other_processes_have_what_was_measured(pytestconfig: pytest.Config) -> None:
    measured = [("recovery_s", 9.0), ("messages", 1234)]
    report = pytest.TestReport(
        "test_faults.py::test_cut",
        ("test_faults.py", 1, "test_cut"),
        {},
        "passed",
        None,
        "call",
        user_properties=measured,
    )
    sent: Any = pytestconfig.hook.pytest_report_to_serializable(config=pytestconfig, report=report)
    received = pytestconfig.hook.pytest_report_from_serializable(config=pytestconfig, data=json.loads(json.dumps(sent)))
    assert [line.split() for line in table([received])][1:] == [["test_faults.py::test_cut", "1234", "9.00", "0.0"]]
