"""Two ends that count every message, at two sites of the emulated network."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from example_programs import example
from exchanged import MessagesWrong, require
from wan import Machine, MachineProcess

from xmml.path import make_credentials

LIMIT_S = 180.0


@dataclass(frozen=True)
class Figures:
    """What one end has counted: messages, the longest time between two of them, streams, memory."""

    sent_control: int
    sent_bulk: int
    came_control: int
    came_bulk: int
    gap_control_s: float
    gap_bulk_s: float
    streams: int
    lost: int
    resumed: int
    peak_kib: int


class Counted:
    """A pair of ends that is running."""

    def __init__(self, server: MachineProcess, client: MachineProcess) -> None:
        self.server, self.client = server, client

    def figures(self) -> tuple[Figures, Figures]:
        """Has both finish; what the server and the client have counted.

        Fails if an end has found a message lost, doubled, reordered or altered, or if the two counts do not agree.
        """
        ends = []
        assert self.client.stdin is not None
        self.client.stdin.close()
        self.client.stdin = None
        for end in (self.client, self.server):
            try:
                output, errors = end.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                raise MessagesWrong(f"what was sent does not come to its end within {LIMIT_S} s") from None
            require(end.returncode == 0, errors)
            values = dict(word.split("=") for word in output.splitlines()[-1].split())
            ends.append(Figures(**{key: (float if "gap" in key else int)(value) for key, value in values.items()}))
        client, server = ends
        require(
            (client.sent_control, client.sent_bulk) == (server.came_control, server.came_bulk), f"{client} to {server}"
        )
        require(
            (server.sent_control, server.sent_bulk) == (client.came_control, client.came_bulk), f"{server} to {client}"
        )
        assert min(client.sent_control, client.sent_bulk, server.sent_control, server.sent_bulk) > 0
        return server, client


@contextmanager
def counted(
    listening: Machine,
    dialling: Machine,
    address: str,
    *,
    streams: str = "8",
    silence_s: float = 1.0,
    size_b: int = 64 << 10,
    encrypted_in: Path | None = None,
) -> Iterator[Counted]:
    """Two ends that send to each other until the figures are asked for; they are gone after the block.

    Args:
        encrypted_in: the path is encrypted, with credentials made in this folder; else it is clear.
    """
    program = example("counted_path")
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    tls: tuple[list[str], list[str]] = pinned(encrypted_in) if encrypted_in else ([], [])
    server = listening.start([program, "serve", streams, str(silence_s), str(size_b), *tls[0]], **output)
    ends = [server]
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        words = ["dial", f"{address}:{port}", streams, str(silence_s), str(size_b), *tls[1]]
        ends.append(dialling.start([program, *words], stdin=subprocess.PIPE, **output))
        yield Counted(*ends)
    finally:
        for end in ends:
            end.kill()
            end.communicate()


def pinned(folder: Path) -> tuple[list[str], list[str]]:
    """The words of the server and the client with which each has credentials and believes those of the other alone."""
    files = [str(folder / f"{name}.pem") for name in ("server", "client")]
    server, client = (make_credentials(file, "counted", seconds=3600.0) for file in files)
    return ["--tls", files[0], client], ["--tls", files[1], server]
