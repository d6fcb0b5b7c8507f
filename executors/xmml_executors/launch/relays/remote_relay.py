"""The relay of a site for the runs of this process, on the login node: compute nodes reach it, and we do by ssh."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from xmml_planner.sites import Site
from xmml_sites.ssh import ConnectionLost, RemoteProcess, SiteUnreachable, TransportError

from xmml_executors.launch.relays.certificates import Certificates
from xmml_executors.launch.site.program import NAME as PROGRAM
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.site.timeouts import lease_of_programs_s
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import relay_log

#: How long it may take until it serves again: conduits through it are tried for half a minute, the coordinator for a
#: whole one.
AGAIN_WITHIN_S = 55.0
AGAIN_PAUSE_S = 0.3
#: What has served for so long has begun well.
BEGUN_WELL_S = 10.0


def port_named(site: Site) -> int:
    """Return the port that the description of a site gives its relay; 0: any."""
    if site.relay is None:
        return 0
    return site.relay.port or (int(site.relay.listen.rpartition(":")[2]) if site.relay.listen else 0)


def words_of(name: str, port: int, log: str, options: Sequence[str]) -> list[str]:
    """Return what stands behind `mto` on the command line of the relay of a site."""
    return ["--site", name, "--listen", f"0.0.0.0:{port}", "--stdin", "--log", log, *options]


class RemoteRelay:
    """`mto` on the login node of a site, for the runs of this process. It is started again whenever it ends, so that
    those who come back find it."""

    def __init__(
        self, site: RunSite, name: str, options: Sequence[str], run: str, secret: bytes, certificates: Certificates
    ) -> None:
        """
        Args:
            name: of the relay, as streams are addressed to it.
            options: the words of its command line that say to which relays it is linked, and how.
            run, secret: the first run that it serves.
            certificates: of all relays that it may be linked to.
        """
        self.site = site
        self.port = 0
        self._process: RemoteProcess | None = None
        self.name, self.options, self.certificates = name, options, certificates
        self._runs = {run: secret}
        self._asking = asyncio.Lock()
        self._is_trusting = False
        self._answers: AsyncIterator[str | bytes]

    @property
    def log(self) -> str:
        """Its log at the site."""
        return f"{self.site.folder}/{relay_log(self.site.name)}"

    async def start(self) -> bool:
        """Start it; return whether it answers.

        It listens on the port that the site's description names, so that relays of other sites come in there; if that
        port is taken, on any.

        Raises:
            TransportError: the site cannot be reached.
        """
        for port in dict.fromkeys((port_named(self.site.site), 0)):
            if await self.start_on(port):
                return True
        return False

    async def start_on(self, port: int) -> bool:
        """Start it on a port. The secrets of runs go to it over its standard input.

        If one that was started earlier still holds the port, because it has not noticed that its connection broke, the
        new one ends it. A note names it by host, process id and start: ids are used again, and login nodes share the
        folder. (Who removes the folder reads the note, too.) Its log says why it does not begin.

        Args:
            port: to listen on; 0: any.

        Returns:
            Whether it serves.

        Raises:
            TransportError: the site cannot be reached.
        """
        words = words_of(self.name, port, self.log, self.options)
        mto, note, log = map(shlex.quote, (f"{self.site.folder}/{PROGRAM}", f"{self.site.folder}/relay", self.log))
        command = (
            # The run's folder is not made again for one that comes when the run has left.
            f"umask 077; mkdir {shlex.quote(os.path.dirname(self.log))} 2>/dev/null; "
            f"exec {mto} {shlex.join(words)} --note {note} 2>> {log}"
        )
        process = await self.site.transport.start_program(command, lease_s=lease_of_programs_s())
        async with self._asking:
            self._process, self._answers = process, process.lines()
            status = await self._answer()
        if status is None:
            await process.kill()
            return False
        # It dials others once it has the run: by then all know its certificate, and it theirs.
        self._is_trusting = False
        await self.certificates.show(self, str(status["certificate"]))
        serves = [await self._serve(run, secret) for run, secret in list(self._runs.items())]
        if not self._is_trusting or not all(serves):
            await process.kill()
            return False
        self.port = int(str(status["listen"][0]).rpartition(":")[2])
        return True

    async def trust(self, certificates: Sequence[str]) -> None:
        """Have it believe relays that show these certificates, and no others."""
        answer = await self._ask({"command": "trust", "fingerprints": list(certificates)})
        self._is_trusting = answer is not None and bool(answer.get("ok"))

    async def add_run(self, run: str, secret: bytes) -> None:
        """Serve another run, too. One that is away serves it when it is started again."""
        self._runs[run] = secret
        with contextlib.suppress(TransportError):
            await self._serve(run, secret)

    async def remove_run(self, run: str) -> None:
        """Serve a run no more.

        Raises:
            TransportError: the site cannot be reached.
        """
        self._runs.pop(run, None)
        await self._ask({"command": "remove-run", "run": run})

    async def end(self) -> None:
        """End it, unless its site is out of reach: then it ends by itself."""
        if self._process is not None:
            with contextlib.suppress(TransportError):
                await self._process.kill()

    async def keep(self, tell: Callable[[str], None]) -> None:
        """Start it again, on its port, whenever it ends; return never.

        Args:
            tell: says to people what happens.

        Raises:
            SiteError: it has ended for good.
        """
        loop = asyncio.get_running_loop()
        began = failing_since = loop.time()
        while True:
            assert self._process is not None
            try:
                how = f"exit status {await self._process.wait()}"
            except TransportError:
                how = "its connection to us was lost"
            if loop.time() - began > BEGUN_WELL_S:
                failing_since = loop.time()
            elif loop.time() - failing_since > AGAIN_WITHIN_S:
                raise SiteError(f"the relay of {self.site.name} ends again and again ({how})")
            else:
                await asyncio.sleep(AGAIN_PAUSE_S)
            tell(f"{self.site.name}: its relay has ended ({how}) and is started again")
            await self._again(how)
            began = loop.time()

    async def _serve(self, run: str, secret: bytes) -> bool:
        answer = await self._ask({"command": "add-run", "run": run, "secret": secret.hex()})
        return answer is not None and bool(answer.get("ok"))

    async def _ask(self, order: dict[str, object]) -> dict[str, Any] | None:
        async with self._asking:
            assert self._process is not None
            await self._process.write(json.dumps(order).encode() + b"\n")
            return await self._answer()

    async def _answer(self) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = json.loads(await anext(self._answers))
        except (StopAsyncIteration, ValueError):
            return None
        return answer

    async def _again(self, how: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + AGAIN_WITHIN_S
        why = how
        while loop.time() < until:
            try:
                if await self.start_on(self.port):
                    return
                why = f"port {self.port} is taken, or it does not begin"
            except (SiteUnreachable, ConnectionLost):
                until = loop.time() + AGAIN_WITHIN_S  # whoever speaks with the site says when it is given up
            except Exception as error:  # of ssh, of what it says: whatever it is, another try may do
                why = str(error) or type(error).__name__
            await asyncio.sleep(AGAIN_PAUSE_S)
        raise SiteError(f"the relay of {self.site.name} has ended ({how}) and cannot be started again: {why}")
