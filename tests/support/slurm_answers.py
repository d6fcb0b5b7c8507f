"""Programs that answer in the words of Slurm, for tests of what is asked of it; the shell text that calls them is
real."""

from __future__ import annotations

from pathlib import Path

import pytest

SCONTROL = "PartitionName=batch Default=YES MaxNodes=UNLIMITED MaxTime=1-00:00:00 MaxCPUsPerNode=UNLIMITED TotalNodes=4"
SINFO = "NODES|batch|4|2000|(null)|1|idle\nNODES|batch|4|2000|(null)|3|down*"
ACCOUNTS = "abc|normal|normal|||cpu=8"
QOS = "normal||cpu=64||"


def without_accounting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of programs that comes first on the search path: those of a cluster without accounting."""
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    answer(folder, "scontrol", f"echo '{SCONTROL}'")
    answer(folder, "sinfo", f"echo '{SINFO}'")
    answer(folder, "sacctmgr", "echo 'You are not running a supported accounting_storage plugin'; exit 1")
    return folder


def with_accounting(folder: Path, accounts: str = ACCOUNTS) -> None:
    """Let the programs answer as those of a cluster with accounting."""
    answer(folder, "sacctmgr", f'case "$*" in *assoc*) echo "{accounts}";; *) echo "{QOS}";; esac')


def answer(folder: Path, name: str, text: str) -> None:
    """Let a program be this shell text."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
