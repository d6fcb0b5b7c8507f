"""How commands and files get to a site: one interface, whatever carries them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from xmml.late_dataclass import dataclass
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.conversation import Conversation


class SiteAccess(Protocol):
    """What a transport has to know of a site (`xmml_planner.sites.Site` says it)."""

    @property
    def name(self) -> str:
        """Of the site, for messages."""

    @property
    def ssh(self) -> str | None:
        """A host of the OpenSSH configuration, or `user@host:port`; `None`: this machine."""

    @property
    def transport(self) -> str:
        """`asyncssh` or `openssh`."""


@dataclass(frozen=True)
class Forwarding:
    """A port that leads to another machine.

    Attributes:
        port: on this machine (`forward_local`) or on the loopback device of the login node (`forward_remote`).
    """

    port: int
    key: object = None


class RemoteProcess(Protocol):
    """A command that runs at a site for longer. It stops when its lease expires."""

    async def write(self, data: bytes) -> None:
        """Give it input."""

    async def close_stdin(self) -> None:
        """Say that no more input comes."""

    def lines(self) -> AsyncIterator[str]:
        """Its output, line by line; a line of more than 65,536 characters comes in pieces."""

    async def wait(self) -> int:
        """Its exit status when it has ended.

        Raises:
            ConnectionLost: it is not known any more; it ends with its lease.
        """

    async def kill(self) -> None:
        """End it and everything in its process group; wait until that is done."""


class OwnProcess(RemoteProcess, Protocol):
    """A program of ours that runs at a site."""

    async def how_ended(self) -> str:
        """How it has ended, when it has: its exit status, and the last line of its standard error.

        Raises:
            ConnectionLost: it is not known any more; it ends with its lease.
        """


class Transport(Protocol):
    """The way to one site. Paths at the site are absolute or begin with `~/`.

    One connection is kept and made again when it was lost; not more than 8 commands use it at a time, the others wait.
    Every method may raise `TransportError`.
    """

    @property
    def site(self) -> str:
        """The name of the site."""

    async def connect(self) -> None:
        """Make the connection, if it does not stand."""

    async def home(self) -> str:
        """The home directory there."""

    async def run(self, command: str, stdin: bytes | str | None = None, *, timeout_s: float = 60.0) -> CommandResult:
        """Run shell text with `/bin/sh`, and wait for it.

        Raises:
            NoAnswer: it did not end within `timeout_s`; it is ended there shortly after.
            TooMuchOutput: it wrote more than 16 MiB.
        """

    def converse(
        self,
        command: str,
        doing: str,
        *,
        timeout_s: float,
        further_channel: str = "",
        on_piece: Callable[[], None] | None = None,
        lease_s: float | None = None,
    ) -> contextlib.AbstractAsyncContextManager[Conversation]:
        """Run a command that speaks in messages with us, for as long as the context; then wait for its end.

        Args:
            doing: what it does, for messages.
            timeout_s: how long it may take; it is ended there shortly after.
            further_channel: a command that carries messages of the conversation by a channel of its own, if more are
                opened.
            on_piece: is called whenever something comes.
            lease_s: it ends by itself when nothing comes over a channel for so long, so signs of life are sent.

        Raises:
            RemoteFileError: it failed, and said why.
            NoAnswer: it did not end within `timeout_s`.
        """

    async def start(self, command: str, *, lease_s: float = 30.0) -> RemoteProcess:
        """Start shell text that runs for longer.

        The lease is renewed as long as we live and are connected; the command is ended between one and two lease
        times after the last renewal.
        """

    async def start_program(self, command: str, *, lease_s: float = 30.0) -> OwnProcess:
        """Start a program of ours that ends by itself: with its input, and when nothing has come over that for a lease
        time. It is one process there, where `start` has others that watch, and gets an empty line now and then.

        Args:
            command: shell text that becomes the program; options for its lease are added to its end.
        """

    async def put(self, local: Path, remote: str) -> None:
        """Copy a file to a site that has nothing but a shell; folders on the way are made, permissions kept. It appears
        complete or not at all. It is held in memory, and travels in one channel: where our program is, and for many or
        large files, `xmml_sites.transfer` is faster."""

    async def put_text(self, remote: str, text: str, *, mode: int = 0o600) -> None:
        """Write a small file there, at once or not at all."""

    async def get_text(self, remote: str, *, limit: int = 2**20) -> str | None:
        """A small file's text; `None` if it is not there."""

    async def remove(self, *remotes: str) -> None:
        """Remove files and whole folders; fine if they are not there."""

    async def mkdir(self, *remotes: str) -> None:
        """Make folders and those above them, for the owner alone; fine if they are there."""

    async def exists(self, remote: str) -> bool:
        """Whether there is such a file or folder."""

    async def hash_files(self, remotes: Sequence[str]) -> dict[str, str]:
        """SHA-256 of each file, in hexadecimal; those that are not there are left out."""

    async def forward_local(self, host: str, port: int) -> Forwarding:
        """A port of ours on 127.0.0.1 that leads to a port which the login node can reach."""

    async def forward_remote(self, host: str, port: int) -> Forwarding:
        """A port on the login node's loopback device that leads to one that we can reach."""

    async def stop_forwarding(self, forwarding: Forwarding) -> None:
        """Close such a port."""

    async def close(self) -> None:
        """End what was started here and the connection. Nothing of us is left at the site."""
