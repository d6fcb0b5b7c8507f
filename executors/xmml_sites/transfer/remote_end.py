"""The other end: a process started over ssh, and the connection to it.

ssh itself logs in, as for scp: it asks at the terminal, and says there what is wrong. A copy leads to a host, which may
be no site. Loads little: what else a copy needs is loaded while ssh logs in.
"""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import threading
from collections.abc import Sequence
from typing import BinaryIO

from xmml_sites.ssh.destination import CONNECTION_OPTIONS
from xmml_sites.ssh.remote_shell import path_word
from xmml_sites.transfer.message_stream import ConnectionBroken, PipeMessageStream
from xmml_sites.transfer.messages import MAGIC

#: Until the remote end has said something; a person may have to type a password.
START_LIMIT_S = 120.0
#: Bytes that a remote shell may print before the remote end begins.
MOST_GREETING_B = 64 << 10
_NOT_FOUND = 127
#: Also of a shell that finds a folder of that name instead, such as the one of runs, ~/xmml.
_CANNOT_RUN = 126
_NO_CONNECTION = 255


class NoRemoteEnd(Exception):
    """There is nobody to talk to at the other end; the text says why and what to do."""


class RemoteEnd:
    """A process at a host that speaks our protocol on its standard streams. Ends with the `with` block."""

    def __init__(self, host: str, ssh: Sequence[str], command: str) -> None:
        """Start the process, without waiting for it.

        Args:
            ssh: begins the command line that leads to the host.
            command: the path of xmml there.
        """
        self.host, self._ssh, self._command = host, ssh, command
        # Nothing secret is on the command line.
        words = [*ssh, "-T", *CONNECTION_OPTIONS, host, f"exec {path_word(command)} cp --serve"]
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise NoRemoteEnd(f"{shlex.join(ssh)} cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.channel = PipeMessageStream(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        self._clock = threading.Timer(START_LIMIT_S, self._process.kill)
        self._clock.daemon = True
        self._clock.start()

    def await_start(self) -> None:
        """Wait until the process has begun; it receives what was sent before that.

        Raises:
            NoRemoteEnd: it does not begin.
        """
        self._skip_greeting(self._process.stdout)  # type: ignore[arg-type]
        self._clock.cancel()

    def _skip_greeting(self, output: BinaryIO) -> None:
        greeting = b""
        while not greeting.endswith(MAGIC):
            line = output.readline(MOST_GREETING_B)
            greeting += line
            if not line or len(greeting) > MOST_GREETING_B:
                raise NoRemoteEnd(self._why(greeting))

    def _why(self, greeting: bytes) -> str:
        if len(greeting) > MOST_GREETING_B:
            return f"{self.host} prints so much at login that the remote end cannot be heard; keep its shell quiet"
        status = self._process.wait()
        said = greeting.decode(errors="replace").strip()
        if status == _NO_CONNECTION:
            trial = shlex.join([*self._ssh, self.host, "true"])
            return f"ssh cannot reach {self.host}; its message is above. Does `{trial}` work?"
        if status in (_NOT_FOUND, _CANNOT_RUN):
            return (
                f"{self._command} was not found at {self.host}; say where it is with --remote PATH (xmml sites install "
                "puts it into ~/xmml/python/bin, unless the file of sites says otherwise)"
            )
        if status < 0:
            return f"nothing was heard from {self.host} for {START_LIMIT_S:.0f} s"
        return f"{self._command} at {self.host} ended with status {status}{': ' if said else ''}{said[-500:]}"

    def __enter__(self) -> RemoteEnd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lost(self, error: ConnectionBroken) -> ConnectionBroken:
        """What to say when the connection has ended while it was in use."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(5)
            if status not in (0, _NO_CONNECTION):
                return ConnectionBroken(
                    f"the remote end at {self.host} has ended with status {status}; its message is above"
                )
        return ConnectionBroken(
            f"the connection to {self.host} was lost ({error}); copy again to go on where it stopped"
        )

    def leave(self) -> None:
        """Close the connection without waiting for the remote end, which has done everything and exits by itself."""
        self.channel.close()
        self._process.terminate()

    def kill(self) -> None:
        """End the connection also while it takes nothing that is sent."""
        self._process.kill()

    def close(self) -> None:
        """Close the connection, and thereby end the remote end."""
        self._clock.cancel()
        self.channel.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
