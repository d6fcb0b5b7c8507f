"""The relay of a run, on the machine that it is launched from: the meeting point of sites that can only dial out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from xmml_native import mto

from xmml_executors.launch.relays.certificates import Certificates, trust_order, trust_orders
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError

#: The standard error of the relay, as a file.
STANDARD_ERROR = Path("/proc/self/fd/2")
#: How long the relay may take to answer.
ANSWER_WITHIN_S = 10.0


def device_of(*, is_open: bool) -> str:
    """Return the device that the relay of this machine listens on."""
    return "0.0.0.0" if is_open else "127.0.0.1"


def words_of(name: str, device: str, port: int, log: Path) -> list[str]:
    """Return what stands behind `mto` on the command line of the relay of this machine."""
    return ["--site", name, "--listen", f"{device}:{port}", "--stdin", "--log", str(log)]


class LocalRelay:
    """A process of `mto` that serves the runs of this process, and ends with us, however we end."""

    def __init__(
        self,
        name: str,
        run: str,
        relay_key: str,
        folder: OpenFolder,
        log: str,
        *,
        is_open: bool,
        clear_from: Collection[str] = (),
    ) -> None:
        """Start it.

        Args:
            name: of the relay, as streams are addressed to it.
            run, relay_key: the first run that it serves.
            folder: that its log lies in, open as long as the relay.
            log: the name of the file in it that the relay appends its log to.
            is_open: compute nodes of the cluster that we are on dial it; else it listens on the loopback device only.
            clear_from: the sites whose relays dial it without encryption. (It dials nobody itself.)

        Raises:
            SiteError: it cannot be started, or does not answer.
        """
        self.name, self.clear_from = name, clear_from
        self.site_name = name.rpartition("-")[0]
        self._runs = {run: relay_key}
        self._folder, self._log = folder, log
        self._device = device_of(is_open=is_open)
        self.host = socket.gethostname() if is_open else "127.0.0.1"
        self.port = 0
        self._asking = threading.RLock()
        self._restarting = asyncio.Lock()
        self.start()
        #: Of all relays that it may be linked to.
        self.certificates = Certificates()
        self.certificates.begin(self, self.certificate)

    def start(self) -> None:
        """Start it, on the port that it had if it has ended. It believes no other relay until it is told of one.

        Raises:
            SiteError: it cannot be started, or does not answer.
        """
        with self._asking:
            self._start()

    def _start(self) -> None:
        command = [str(mto.PROGRAM), *words_of(self.name, self._device, self.port, STANDARD_ERROR)]
        try:
            if above := os.path.dirname(self._log):
                self._folder.make_folder(above)
            # Why it does not begin, or falls, it says there, too.
            opened = self._folder.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(opened, "ab") as standard_error:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=standard_error, process_group=0
                )
        except OSError as error:
            raise SiteError(f"the relay cannot be started: {error.filename or mto.PROGRAM}: {error.strerror}") from None
        status = self._answer()
        self.port, self.certificate = port_of(status), str(status["certificate"])
        orders = [trust_order({self.name: self.certificate})]
        orders += [{"command": "add-run", "run": run, "relay_key": key} for run, key in self._runs.items()]
        for order in orders:
            answer = self._ask(order)
            if not answer.get("ok"):
                self.close()
                raise SiteError(f"the relay does not serve the run: {answer.get('problem')}")

    def add_run(self, run: str, relay_key: str) -> None:
        """Serve another run, too.

        Raises:
            SiteError: it does not.
        """
        with self._asking:
            self._runs[run] = relay_key
            answer = self._ask({"command": "add-run", "run": run, "relay_key": relay_key})
        if not answer.get("ok"):
            raise SiteError(f"the relay does not serve the run: {answer.get('problem')}")

    def remove_run(self, run: str) -> None:
        """Serve a run no more."""
        with self._asking, contextlib.suppress(SiteError):  # one that has ended is started again without it
            self._runs.pop(run, None)
            self._ask({"command": "remove-run", "run": run})

    async def start_again(self) -> bool:
        """Start it again if it has ended, while others are linked to it, which are told of its new certificate; return
        whether it had.

        Raises:
            SiteError: it cannot be started, or does not answer.
        """
        async with self._restarting:  # every run looks after it
            if not self.has_ended:
                return False
            await asyncio.to_thread(self.start)
            await self.certificates.show(self, self.certificate)
            return True

    async def trust(self, certificates: Mapping[str, str], clear_from: Sequence[str]) -> None:
        """Have the relay trust these certificates, by the names of their relays, and take links in clear from these
        relays, and no others."""
        for order in trust_orders(certificates, clear_from):
            await asyncio.to_thread(self._ask, order)

    @property
    def has_ended(self) -> bool:
        """Whether it must be started again."""
        return self._process.poll() is not None

    @property
    def address(self) -> str:
        """Where processes of this machine find it: the value of XMML_RELAY."""
        return f"127.0.0.1:{self.port}/{self.name}"

    def at(self, host: str, port: int) -> str:
        """The value of XMML_RELAY where it is reached at another address."""
        return f"{host}:{port}/{self.name}"

    def name_at(self, site: str) -> str:
        """Return the name of a relay at another site that is linked to this one: it differs as this one's does."""
        return f"{site}-{self.name.rpartition('-')[2]}"

    def close(self) -> None:
        """End it."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(ANSWER_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, what: dict[str, object]) -> dict[str, object]:
        with self._asking:
            self._tell(what)
            return self._answer()

    def _tell(self, what: dict[str, object]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, and its input may have been closed
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, object]:
        assert self._process.stdout is not None
        waiting = select.poll()
        try:
            waiting.register(self._process.stdout, select.POLLIN)
            line = self._process.stdout.readline() if waiting.poll(ANSWER_WITHIN_S * 1e3) else b""
            answer: dict[str, object] = json.loads(line)
        except ValueError:  # it has said something else, or nothing
            self.close()
            log = self._folder.path / self._log
            raise SiteError(f"the relay of this machine does not begin; why it says in {log}") from None
        return answer


def port_of(status: dict[str, object]) -> int:
    """Return the port at which a relay reports that it listens."""
    listening = status["listen"]
    assert isinstance(listening, list)
    return int(str(listening[0]).rpartition(":")[2])
