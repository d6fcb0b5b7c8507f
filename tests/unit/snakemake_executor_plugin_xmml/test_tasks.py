"""What the executor looks after."""

from __future__ import annotations

import os
import time
from pathlib import Path

from snakemake_executor_plugin_xmml.tasks import AdoptedRun, Task


def never() -> Task:
    raise AssertionError("it is started again")


def test_a_run_that_an_earlier_snakemake_started_is_cancelled_while_nobody_waits(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    os.mkfifo(plan)  # who reads it waits until somebody writes it
    run = AdoptedRun(tmp_path, never)
    run.interrupt()
    until = time.monotonic() + 30
    while not (found := [pid for pid in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in command(pid)]):
        assert time.monotonic() < until, "nobody cancels it"
    (cancelling,) = found
    assert os.getsid(int(cancelling.name)) == int(cancelling.name), "Ctrl-C at the terminal would end it"
    run.leave()
    plan.write_text("{}")
    run.wait()
    assert not cancelling.exists()


def command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
