"""The clock of the host is set in mid-run, by a day forward or back: nothing that counts seconds minds."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from faulty_models import RECEIVE, Models
from gates import sends_half_until

DAY_S = 86_400
SOURCE = Path(__file__).parents[1] / "support/jumping_clock.c"


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the seconds that everything that is started now adds to its wall clock."""
    library, offset = tmp_path / "jumping_clock.so", tmp_path / "offset"
    words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE, "-ldl"]
    subprocess.run(words, check=True)
    offset.write_bytes(struct.pack("=q", 0))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("JUMPING_CLOCK", str(offset))
    return offset


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S])
@pytest.mark.parametrize("method", ["shm", "tcp"])
def test_a_clock_that_is_set_in_mid_run_changes_nothing(models: Models, clock: Path, jump_s: int, method: str) -> None:
    gate = models.folder / "gate"
    programs = {"a": sends_half_until(gate, 5), "b": RECEIVE}
    going = models.start(models.write(programs, steps=10, run=f'run:methods="{method}"'))
    going.wait_for_event("conduits")
    with open(clock, "r+b") as file:
        os.pwrite(file.fileno(), struct.pack("=q", jump_s), 0)
    gate.touch()
    ended = going.end()
    assert ended.status == 0, ended.err
    first, *_, last = going.wait_for_event("run ended")
    assert abs(last["time"] - first["time"] - jump_s) < DAY_S / 2
    assert 0 <= last["wall_s"] < DAY_S / 2
    assert last["instances"]["b"]["messages_received"] == 10
