"""`.ci/test-rust` runs all test programs of the Rust crates, each as cargo would, and names the tests that failed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / ".ci" / "test-rust"
#: Stands for cargo: says what it has built, or runs the tests of documentation.
CARGO = """#!/bin/sh
case "$*" in
    *--doc*) echo "test src/lib.rs - ring (line 1) ... ok" ;;
    *) echo "$*" > "$0.arguments"; cat "$0.messages" ;;
esac
"""


def run(folder: Path, programs: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Return the exit status and the output of the script, where cargo builds these shell scripts as test programs."""
    messages: list[dict[str, object]] = []
    for name, script in programs.items():
        program = folder / "target" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        crate = folder / "a crate"
        crate.mkdir(exist_ok=True)
        target = {"kind": ["test"], "src_path": str(crate / "tests" / f"{name}.rs")}
        built = {"executable": str(program), "profile": {"test": True}, "manifest_path": str(crate / "Cargo.toml")}
        messages.append({"reason": "compiler-artifact", "target": target, **built})
    (folder / ".ci").mkdir()
    shutil.copy(SCRIPT, folder / ".ci" / "test-rust")
    cargo = folder / "bin" / "cargo"
    cargo.parent.mkdir()
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    Path(f"{cargo}.messages").write_text("".join(json.dumps(message) + "\n" for message in messages))
    environment = {**os.environ, "PATH": f"{cargo.parent}:{os.environ['PATH']}"}
    command = [folder / ".ci" / "test-rust", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    return done.returncode, done.stdout


def test_the_output_of_each_program_is_whole_and_all_pass(tmp_path: Path) -> None:
    wait = "echo one $(pwd) $CARGO_MANIFEST_DIR; sleep 0.2; echo two"
    status, output = run(tmp_path, {"ring": wait, "queue": wait})
    assert status == 0
    folder = tmp_path / "a crate"
    for name in ("ring", "queue"):
        assert f"Running a crate/tests/{name}.rs\none {folder} {folder}\ntwo\n" in output
    assert "src/lib.rs - ring (line 1) ... ok" in output


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo 'test a::b ... FAILED'; exit 101", "FAILED a crate/tests/ring.rs: a::b"),
        ("kill -ABRT $$", "FAILED a crate/tests/ring.rs: exit status -6"),
    ],
)
def test_what_failed_is_named_at_the_end(tmp_path: Path, script: str, named: str) -> None:
    status, output = run(tmp_path, {"ring": script, "queue": "echo fine"})
    assert status == 1
    assert output.splitlines()[-1] == named


def test_the_fast_form_runs_the_unit_tests_in_the_crates_only(tmp_path: Path) -> None:
    status, output = run(tmp_path, {"ring": "echo fine"}, "--fast")
    assert status == 0
    assert "--lib --bins" in (tmp_path / "bin" / "cargo.arguments").read_text()
    assert "line 1" not in output
