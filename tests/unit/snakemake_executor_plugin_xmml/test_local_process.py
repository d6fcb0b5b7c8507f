"""Commands on this machine, when they are interrupted."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from snakemake_executor_plugin_xmml import local_process
from snakemake_executor_plugin_xmml.local_process import LocalProcess
from waiting import wait_until

#: Needs so many seconds to end after Ctrl-C, and does not hear SIGTERM.
SLOW = "trap '' TERM; trap 'sleep {s}; exit 7' INT; echo ready; while :; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_process, "INTERRUPTED_S", 0.1)
    monkeypatch.setattr(local_process, "TERMINATED_S", 0.1)


def begun(tmp_path: Path, *, has_sites: bool) -> LocalProcess:
    slow = SLOW.format(s=1 if has_sites else 600)
    process = LocalProcess(["/bin/sh", "-c", slow], tmp_path / "log", has_sites=has_sites)
    wait_until(lambda: (tmp_path / "log").read_text() == "ready\n" or process.status() is not None, "it does not begin")
    process.interrupt()
    return process


def test_a_command_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    assert begun(tmp_path, has_sites=False).wait() == -signal.SIGKILL


def test_one_that_has_sites_to_release_has_its_time(tmp_path: Path) -> None:
    assert begun(tmp_path, has_sites=True).wait() == 7


def test_a_command_that_nobody_waits_for_any_more_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_process, "INTERRUPTED_S", 600.0)
    process = begun(tmp_path, has_sites=False)
    process.leave()
    assert process.wait() == -signal.SIGKILL


def test_one_that_has_sites_to_release_goes_on_when_nobody_waits_for_it(tmp_path: Path) -> None:
    process = begun(tmp_path, has_sites=True)
    process.leave()
    assert process.wait() == 7
