"""Where the benchmarks find their peers and leave what they build and measure."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "benchmarks"
RESULTS = ROOT / "benchmarks" / "results"
PEERS = Path(os.environ.get("XMML_BENCH_PEERS") or ROOT / "build" / "peers")
"""The virtual environment with MUSCLE3 and other peers; benchmarks/prepare.py makes it."""


def tool(name: str) -> Path | None:
    """A command of the environment that runs us (also when it is not activated), or of the search path."""
    beside = Path(sys.executable).parent / name
    if beside.is_file():
        return beside
    found = shutil.which(name)
    return Path(found) if found else None


def peer(name: str) -> Path | None:
    """A command of the virtual environment with the peers: `python`, `muscle_manager`."""
    command = PEERS / "bin" / name
    return command if command.is_file() else None


def muscle3(name: str) -> Path | None:
    """The same if MUSCLE3 is there."""
    return peer(name) if peer("muscle_manager") else None


def environment(**more: str) -> dict[str, str]:
    """Ours, with the tools that belong to this interpreter first on the search path, and `more`.

    Bytecode is written as it is for a user: without it each run would compile all of xMML again, but none of its peers.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, "PATH": path, **more}
