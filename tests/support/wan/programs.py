"""The two C programs under the network: compiled once for each state of their source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent
BUILT = Path(__file__).resolve().parents[3] / "build" / "wan"
#: Why somebody else than root does not run a test.
ROOT = "needs root: sudo make test-python ARGS=tests/testbed"
COMPILER = ("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")


@cache
def program(name: str) -> Path:
    """The program `name`, compiled from the source of that name beside this file.

    Raises:
        RuntimeError: the compiler has errors.
    """
    source = SOURCES / f"{name}.c"
    built = BUILT / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not built.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            made = Path(folder) / name
            done = subprocess.run([*COMPILER, "-o", str(made), str(source)], capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"{source} does not compile:\n{done.stderr}")
            made.replace(built)  # whole or not at all, also with others at the same work
    return built


@cache
def why_not() -> str | None:
    """Why no network can be made here, and what to do about it; None if one can."""
    missing = [command for command in ("ip", "nft", "cc") if found(command) is None]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install iproute2 nftables gcc"
    if os.geteuid() != 0:
        return ROOT
    if not Path("/dev/net/tun").exists():
        return "/dev/net/tun is missing: modprobe tun"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"], capture_output=True, text=True
    )
    return f"namespaces are not permitted here: {tried.stderr.strip()}" if tried.returncode != 0 else None


def found(command: str) -> str | None:
    """Where a command is; tools of the administrator are often not on the search path."""
    return shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def tool(command: str) -> str:
    """Where a command is that must be there."""
    where = found(command)
    if where is None:
        raise RuntimeError(f"{command} is not installed")
    return where
