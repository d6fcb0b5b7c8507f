"""What the executor looks after."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gates import awaits
from processes import command_line, processes
from snakemake_executor_plugin_xmml.tasks import AdoptedRun, Task
from waiting import wait_until


def never() -> Task:
    raise AssertionError("it is started again")


def test_a_run_that_an_earlier_snakemake_started_is_cancelled_while_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    (tmp_path / "sitecustomize.py").write_text(f"{awaits(gate)}\n")  # what cancels begins when the gate is there
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = AdoptedRun(tmp_path / "run", never)
    run.interrupt()
    (cancelling,) = wait_until(
        lambda: [entry for entry in processes() if str(tmp_path / "run") in command_line(entry)], "nobody cancels it"
    )
    assert os.getsid(int(cancelling.name)) == int(cancelling.name), "Ctrl-C at the terminal would end it"
    run.leave()
    gate.touch()
    run.wait()
    assert not cancelling.exists()
