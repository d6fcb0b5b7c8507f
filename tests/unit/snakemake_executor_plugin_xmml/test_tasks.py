"""What the executor looks after."""

from __future__ import annotations

import os
from pathlib import Path

from processes import command_line, processes
from snakemake_executor_plugin_xmml.tasks import AdoptedRun, Task
from waiting import wait_until


def never() -> Task:
    raise AssertionError("it is started again")


def test_a_run_that_an_earlier_snakemake_started_is_cancelled_while_nobody_waits(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    os.mkfifo(plan)  # who reads it waits until somebody writes it
    run = AdoptedRun(tmp_path, never)
    run.interrupt()
    (cancelling,) = wait_until(
        lambda: [entry for entry in processes() if str(tmp_path) in command_line(entry)], "nobody cancels it"
    )
    assert os.getsid(int(cancelling.name)) == int(cancelling.name), "Ctrl-C at the terminal would end it"
    run.leave()
    plan.write_text("{}")
    run.wait()
    assert not cancelling.exists()
