"""The local executor: starts the supervisor of this machine, gives it orders, and hears what becomes of the
instances."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from xmml_native import mto
from xmml_native.machine import descendants

from xmml_executors import protocol
from xmml_executors.executor import LastReport, ProcessStart, Report
from xmml_executors.limits import explained
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError

#: How long the supervisor may take to end everything and itself.
SUPERVISOR_ENDS_WITHIN_S = 5.0
READ_BYTES = 256 * 1024

PR_SET_CHILD_SUBREAPER = 36


class LocalExecutor:
    """The instances of this machine, through the supervisor. `fileno` is readable when `take_reports` has something."""

    def __init__(self, folder: OpenFolder) -> None:
        """Start the supervisor.

        Args:
            folder: of the run; the supervisor works in it, and finds relative paths there.

        Raises:
            SiteError: it cannot be started.
        """
        become_subreaper()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise SiteError(f"the supervisor cannot be started: {explained(error)}") from None
        try:
            self._process = subprocess.Popen(
                [mto.PROGRAM, "supervise"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd=folder.lasting_path,
                process_group=0,
            )
        except OSError as error:
            ours.close()
            raise SiteError(f"the supervisor, {mto.PROGRAM}, cannot be started: {explained(error)}") from None
        finally:
            theirs.close()
        self._socket = ours
        self._incoming = b""

    def fileno(self) -> int:
        """A descriptor to wait on for reports."""
        return self._socket.fileno()

    @property
    def is_acquired(self) -> bool:
        """This machine is always there."""
        return True

    @property
    def late(self) -> frozenset[str]:
        """Nobody has to wait for this machine."""
        return frozenset()

    def hasten(self, names: Collection[str]) -> None:
        """Nobody is late."""

    def open_relay(self) -> str | None:
        """Nothing here needs one."""
        return None

    def acquire(self, coordinator: Sequence[str]) -> None:
        """Nothing has to be got."""

    @property
    def supervisor_pid(self) -> int:
        """The process id of the supervisor."""
        return self._process.pid

    def start(self, process: ProcessStart) -> None:
        """Start a process of this machine; its files are there already."""
        self._tell(process.order())

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance; of one that is gone, nothing happens."""
        self._tell(protocol.Signal(name, int(number)))

    def watch(self, name: str, pid: int) -> None:
        """Connections within this machine break only when their process ends."""

    def remove_at_end(self, path: Path) -> None:
        """Have a file, or a folder, removed when everything has ended, also if this process is killed.

        Args:
            path: absolute, or relative to the folder of the run.
        """
        self._tell(protocol.Remove(str(path)))

    def take_reports(self) -> Sequence[Report] | None:
        """Return what the supervisor has reported, without waiting; `None` if it is gone.

        Raises:
            ProtocolError: it has reported what cannot be understood.
        """
        try:
            chunk = self._socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            return None
        *lines, self._incoming = (self._incoming + chunk).split(b"\n")
        return [protocol.read_supervisor_report(line, "the supervisor of this machine") for line in lines]

    def close(self, run_folder: Path, on_report: Callable[[LastReport], None]) -> None:
        """End what is left of the run on this machine, and the supervisor."""
        self._tell(protocol.Quit())
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(SUPERVISOR_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._socket.close()
        if self._process.returncode != 0:
            kill_remainder(run_folder)

    def _tell(self, order: protocol.Order) -> None:
        """Send an order; that the supervisor is gone shows when its reports end."""
        with contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(protocol.order_object(order)).encode() + b"\n")


def become_subreaper() -> None:
    """Inherit what the supervisor leaves behind if it is killed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_remainder(run_folder: Path) -> None:
    """Kill the descendants of this process that belong to the run; for when the supervisor was killed itself."""
    mark = f"XMML_RUN_DIR={run_folder}".encode()
    for _ in range(3):
        victims = [pid for pid in descendants(os.getpid()) if mark in _environment(pid)]
        if not victims:
            return
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []
