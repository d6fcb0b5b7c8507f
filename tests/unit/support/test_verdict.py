"""`.ci/test` runs every test once, and says what failed and what was not run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / ".ci"
#: Stands for .ci/test-rust or pytest: counts its calls, prints the file beside it, and fails if that has a failure.
PROGRAM = """#!/bin/sh
echo called >> "$0.calls"
cat "$0.output"
! grep -q FAILED "$0.output"
"""
PASSED = {
    ".ci/test-rust": "test ring ... ok\ntest result: ok. 3 passed; 0 failed; 2 ignored;\n",
    ".venv/bin/pytest": "3 passed\n",
}


def verdict(folder: Path, outputs: dict[str, str] | None = None) -> tuple[int, str, set[int]]:
    """Return the exit status of the script, its summary, and how often the programs were called."""
    shutil.copytree(SCRIPTS, folder / ".ci")
    calls = []
    for program, output in {**PASSED, **(outputs or {})}.items():
        stand_in = folder / program
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.write_text(PROGRAM)
        stand_in.chmod(0o755)
        Path(f"{stand_in}.output").write_text(output)
        calls.append(Path(f"{stand_in}.calls"))
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run([folder / ".ci/test"], capture_output=True, text=True, cwd=folder, env=environment)
    counts = {file.read_text().count("called") for file in calls}
    return done.returncode, done.stdout.partition("\nSummary\n")[2], counts


def test_all_tests_that_pass_pass(tmp_path: Path) -> None:
    status, summary, _ = verdict(tmp_path)
    assert status == 0
    assert "failed" not in summary.casefold()


@pytest.mark.parametrize(
    ("program", "output", "named"),
    [
        (".ci/test-rust", "FAILED mto/tests/relay/main.rs: ring\n", "mto/tests/relay/main.rs: ring"),
        (
            ".venv/bin/pytest",
            "FAILED tests/test_a.py::test_ring[1-2] - assert 1 == 2\n",
            "tests/test_a.py::test_ring[1-2]",
        ),
    ],
)
def test_a_test_that_fails_is_named_and_not_run_again(tmp_path: Path, program: str, output: str, named: str) -> None:
    status, summary, calls = verdict(tmp_path, {program: output})
    assert status == 1
    assert f"failed:     {named}" in summary
    assert calls == {1}


def test_tests_that_were_not_run_are_counted_by_reason(tmp_path: Path) -> None:
    reason = "needs root: sudo make test-python ARGS=tests/testbed"
    skipped = f"SKIPPED [2] tests/a.py:7: {reason}\nSKIPPED [1] tests/b.py:9: {reason}\n"
    rust = "NOT RUN: a_container: sudo cargo test --test crash\n"
    _, summary, _ = verdict(tmp_path, {".venv/bin/pytest": skipped, ".ci/test-rust": rust})
    assert f"not run:    3: {reason}" in summary
    assert "not run:    1: a_container: sudo cargo test --test crash" in summary
