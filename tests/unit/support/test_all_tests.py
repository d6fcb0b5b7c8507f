"""How `.ci/test` judges what failed at first: slowness is forgiven, messages that were lost or altered are not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from exchanged import MessagesWrong, require

SCRIPT = Path(__file__).resolve().parents[3] / ".ci" / "test"
#: Says the next of its lines at each call, and fails as long as there is another.
FAKE = """#!/bin/sh
for word; do [ "$word" != --collect-only ] || exit 0; done
calls=$(cat "$0.calls" 2>/dev/null || echo 0)
echo $((calls + 1)) > "$0.calls"
[ -f "$0.$calls" ] || { echo "test result: ok. 3 passed; 0 failed; 2 ignored;"; exit 0; }
cat "$0.$calls"
exit 1
"""
SLOW = "AssertionError: promised within 5 s, took 9 s\nSKIPPED [2] tests/test_a.py:7: the long form: XMML_SOAK=1\n"


def judged(folder: Path, **failures: list[str]) -> tuple[int, str, dict[str, int]]:
    """What the script makes of so many failing runs of each program: its status, its summary, how often each ran."""
    for program in ("cargo", "pytest"):
        fake = folder / ".venv" / "bin" / program
        fake.parent.mkdir(parents=True, exist_ok=True)
        fake.write_text(FAKE)
        fake.chmod(0o755)
        for number, text in enumerate(failures.get(program, [])):
            Path(f"{fake}.{number}").write_text(text)
    (folder / ".ci").mkdir()
    script = shutil.copy(SCRIPT, folder / ".ci")
    done = subprocess.run(
        [script], capture_output=True, text=True, cwd=folder, env={**os.environ, "PATH": "/usr/bin:/bin"}
    )
    calls = {name: int((folder / ".venv" / "bin" / f"{name}.calls").read_text()) for name in ("cargo", "pytest")}
    return done.returncode, done.stdout.partition("\nSummary\n")[2], calls


def test_what_passes_passes(tmp_path: Path) -> None:
    status, summary, calls = judged(tmp_path)
    assert status == 0
    assert calls == {"cargo": 1, "pytest": 1}
    assert "ignored:    2 by cargo test" in summary


def test_slowness_is_forgiven_and_named(tmp_path: Path) -> None:
    status, summary, calls = judged(tmp_path, cargo=[SLOW], pytest=[SLOW, SLOW])
    assert status == 0
    assert calls == {"cargo": 2, "pytest": 3}
    assert "UNSTEADY" in summary
    assert "skipped:    2: the long form: XMML_SOAK=1" in summary


def test_who_is_slow_each_time_fails(tmp_path: Path) -> None:
    status, _, calls = judged(tmp_path, pytest=[SLOW] * 3)
    assert status == 1
    assert calls["pytest"] == 3


@pytest.mark.parametrize("program", ["cargo", "pytest"])
def test_wrong_messages_fail_for_good(tmp_path: Path, program: str) -> None:
    with pytest.raises(MessagesWrong) as wrong:
        require(False, "message 7 is not what was sent")
    status, summary, calls = judged(tmp_path, **{program: [SLOW + f"E  {wrong.value}\n"]})
    assert status == 1
    assert calls[program] == 1
    assert "NOT FORGIVEN: E  MESSAGES WRONG: message 7 is not what was sent" in summary
