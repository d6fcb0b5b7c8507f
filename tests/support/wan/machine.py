"""A machine: namespaces of its own, in which programs run."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wan.programs import program, tool

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Connection:
    """A TCP connection of a machine as its kernel lists it."""

    local: tuple[str, int]
    remote: tuple[str, int]


class MachineProcess(subprocess.Popen[Any]):
    """A program on a machine; `program` is its process id. Signals, also SIGKILL and SIGSTOP, go to itself."""

    program: int

    def send_signal(self, sig: int) -> None:
        self.poll()
        if self.returncode is None:
            try:
                os.kill(self.program, sig)
            except ProcessLookupError:
                return


class Machine:
    """One machine of the network; made by Wan."""

    def __init__(self, name: str, files: Iterable[tuple[Path, str]]):
        self.name = name
        words = [str(program("machine")), "hold", str(os.getpid()), name]
        for file, target in files:
            words += [str(file), target]
        self._holder = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        first = self._holder.stdout.readline()
        if not first:
            self._holder.wait()
            raise RuntimeError(f"the machine {name} cannot be made: {self._holder.stderr.read().strip()}")
        self.pid = int(first)

    def start(self, command: Sequence[str | Path], **options: Any) -> MachineProcess:
        """Starts a program; `options` are those of subprocess.Popen."""
        reading, writing = os.pipe()
        try:
            process = MachineProcess(
                [str(program("machine")), "enter", str(self.pid), str(writing), *map(str, command)],
                pass_fds=[*options.pop("pass_fds", ()), writing],
                **options,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        with open(reading) as told:
            said = told.readline()
        if not said:
            process.wait()
            raise RuntimeError(f"{command[0]} cannot be started on {self.name}: the machine has ended")
        process.program = int(said)
        return process

    def run(
        self,
        command: Sequence[str | Path],
        *,
        check: bool = True,
        timeout_s: float = 60,
        stdin: str | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program to its end; its output is text.

        Raises:
            AssertionError: it ended with another status than 0 (unless `check` is off); the text has its output.
            subprocess.TimeoutExpired: it took longer than `timeout_s`; it has been killed.
        """
        process = self.start(
            command,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        try:
            output, errors = process.communicate(stdin, timeout=timeout_s)
        except BaseException:
            process.kill()
            process.communicate()
            raise
        if check:
            assert process.returncode == 0, (
                f"{' '.join(map(str, command))} on {self.name}: exit status {process.returncode}\n{output}{errors}"
            )
        return subprocess.CompletedProcess(list(map(str, command)), process.returncode, output, errors)

    @contextmanager
    def network(self) -> Iterator[None]:
        """Within the block this thread makes its sockets in the network of the machine; so do its new threads."""
        with network_of(self.pid):
            yield

    def connections(self) -> list[Connection]:
        """The established TCP connections over IPv4 (machine to machine, loopback left out)."""
        found = []
        for line in Path(f"/proc/{self.pid}/net/tcp").read_text().splitlines()[1:]:
            local, remote, state = line.split()[1:4]
            if state == _ESTABLISHED:
                found.append(Connection(_endpoint(local), _endpoint(remote)))
        return [each for each in found if not each.local[0].startswith("127.")]

    def configure_network(self, lines: Iterable[str]) -> None:
        """Obeys lines as `ip -batch` takes them. Process ids are those outside."""
        self._with_network(["ip", "-batch", "-"], "\n".join(lines))

    def configure_firewall(self, rules: str) -> None:
        """Obeys a file of nft."""
        self._with_network(["nft", "-f", "-"], rules)

    def configure_kernel(self, settings: Mapping[str, str]) -> None:
        """Sets variables of the network under /proc/sys/net, such as "ipv4/tcp_rmem"."""
        script = "".join(f"echo '{value}' > /proc/sys/net/{name}\n" for name, value in settings.items())
        self.run(["sh", "-ec", script])

    def _with_network(self, command: Sequence[str], stdin: str) -> None:
        words = [str(program("machine")), "enter", "--net", str(self.pid), "-", tool(command[0]), *command[1:]]
        done = subprocess.run(words, input=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} on {self.name}: {done.stderr.strip()}\n{stdin}")

    def crash(self) -> None:
        """Ends the machine as a power cut would, with every program on it. It does not come back."""
        if self._holder.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._holder.communicate()


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Within the block this thread makes its sockets in the network of a process; so do its new threads and
    processes."""
    home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY)
    there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        _enter_network(there)
        try:
            yield
        finally:
            _enter_network(home)
    finally:
        os.close(there)
        os.close(home)


def _endpoint(text: str) -> tuple[str, int]:
    """An address of /proc/net/tcp: hexadecimal, the address in the order of the machine's bytes."""
    address, port = text.split(":")
    return socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)


def _enter_network(descriptor: int) -> None:
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
