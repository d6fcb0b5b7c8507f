"""The relay of a site for the runs of this process, on the login node: compute nodes reach it, and we do by ssh."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence

from xmml_planner.sites import Site
from xmml_sites.ssh import ConnectionLost, SiteUnreachable, TransportError

from xmml.late_dataclass import dataclass
from xmml_executors.executor import Tell
from xmml_executors.launch.relays.certificates import Certificates, trust_orders
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.launch.site.session import RelayChannel
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import relay_log
from xmml_executors.typed_json import ProtocolError, read_object

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
    """Return what would stand behind `mto` on the command line of the relay of a site."""
    return ["--site", name, "--listen", f"0.0.0.0:{port}", "--log", log, *options]


@dataclass(frozen=True)
class _Begun:
    """Of the status of a relay that has begun, what its launcher needs.

    Attributes:
        certificate: its SHA-256, as hexadecimal digits.
        listen: the addresses where it listens, each `HOST:PORT`.
    """

    certificate: str
    listen: Sequence[str]


class RemoteRelay:
    """The relay on the login node of a site for the runs of this process, in the gateway of the site. It is
    started again whenever it ends, so that those who come back find it.

    Attributes:
        problem: why it does not begin, or what it has refused.
    """

    def __init__(
        self,
        site: RunSite,
        name: str,
        options: Sequence[str],
        run: str,
        relay_key: str,
        certificates: Certificates,
        clear_from: Collection[str] = (),
    ) -> None:
        """
        Args:
            name: of the relay, as streams are addressed to it.
            options: the words of its command line that say to which relays it is linked, and how.
            run, relay_key: the first run that it serves.
            certificates: of all relays that it may be linked to.
            clear_from: the sites whose relays dial it without encryption.
        """
        self.site = site
        self.port = 0
        self.problem = ""
        self._channel: RelayChannel | None = None
        self.name, self.options, self.certificates = name, options, certificates
        self.site_name, self.clear_from = site.name, clear_from
        self._runs = {run: relay_key}
        self._is_trusting = False

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
        """Start it on a port. The relay keys of runs go to it over the connection to the gateway.

        If an earlier process of ours still holds the port, because it has not noticed that its connection broke, the
        new relay ends that. A note names it by host, process id and start: ids are used again, and login nodes share
        the folder. (Who removes the folder reads the note, too.)

        Args:
            port: to listen on; 0: any.

        Returns:
            Whether it serves; `problem` says why not.

        Raises:
            TransportError: the site cannot be reached.
        """
        words = [*words_of(self.name, port, self.log, self.options), "--note", f"{self.site.folder}/relay"]
        channel = await self.site.login.gateway.start_relay(self.site.gateway_command, words)
        self._channel = channel
        try:
            return await self._serve_over(channel)
        except BaseException:  # it would hold the port
            await channel.end()
            raise

    async def _serve_over(self, channel: RelayChannel) -> bool:
        """Have one that has been started serve; return whether it does."""
        status = await channel.status()
        if status is None:
            self.problem = await channel.wait()
            return False
        # It dials others once it has the run: by then all know its certificate, and it theirs.
        self._is_trusting = False
        begun = self._begun(status)
        await self.certificates.show(self, begun.certificate)
        serves = [await self._serve(run, key) for run, key in list(self._runs.items())]
        if not self._is_trusting or not all(serves):
            await channel.end()
            return False
        self.port = int(begun.listen[0].rpartition(":")[2])
        return True

    def _begun(self, status: Mapping[str, object]) -> _Begun:
        """Return what a relay that has begun says of itself.

        Raises:
            ProtocolError: it does not say what it should.
        """
        source, needed = f"the relay of site {self.site.name}", ("certificate", "listen")
        told = {name: status[name] for name in needed if name in status}
        begun: _Begun = read_object(_Begun, told, source, "its status")
        if not begun.listen or not re.fullmatch(r".+:\d{1,5}", begun.listen[0], re.ASCII):
            raise ProtocolError(source, "it does not listen at a port", told)
        return begun

    async def trust(self, certificates: Mapping[str, str], clear_from: Sequence[str]) -> None:
        """Have the relay trust these certificates, by the names of their relays, and take links in clear from these
        relays, and no others."""
        self._is_trusting = all([await self._ask(order) for order in trust_orders(certificates, clear_from)])

    async def add_run(self, run: str, relay_key: str) -> None:
        """Serve another run, too. One that is away serves it when it is started again."""
        self._runs[run] = relay_key
        await self._serve(run, relay_key)

    async def remove_run(self, run: str) -> None:
        """Serve a run no more."""
        self._runs.pop(run, None)
        await self._ask({"command": "remove-run", "run": run})

    async def end(self, *, is_given_up: bool = False) -> None:
        """End it, unless its site is out of reach: then it ends by itself.

        Args:
            is_given_up: do not wait until it has ended; nothing is heard of its site.
        """
        if self._channel is not None:
            await self._channel.end(is_given_up=is_given_up)

    async def keep(self, tell: Tell) -> None:
        """Start it again, on its port, whenever it ends; return never.

        Args:
            tell: says to people what happens.

        Raises:
            SiteError: it has ended for good.
        """
        loop = asyncio.get_running_loop()
        began = failing_since = loop.time()
        while True:
            assert self._channel is not None
            try:
                how = await self._channel.wait() or "it was told to"
            except ConnectionLost:
                how = "its connection to us was lost"
            except TransportError as error:
                how = str(error)
            if loop.time() - began > BEGUN_WELL_S:
                failing_since = loop.time()
            elif loop.time() - failing_since > AGAIN_WITHIN_S:
                raise SiteError(f"the relay of {self.site.name} ends again and again ({how})")
            else:
                await asyncio.sleep(AGAIN_PAUSE_S)
            tell(f"its relay has ended ({how}) and is started again", self.site.name)
            await self._again(how)
            began = loop.time()

    async def _serve(self, run: str, relay_key: str) -> bool:
        return await self._ask({"command": "add-run", "run": run, "relay_key": relay_key})

    async def _ask(self, request: dict[str, object]) -> bool:
        """Send a request; return whether it was done."""
        assert self._channel is not None
        answer = await self._channel.ask(request)
        if answer is None or answer.get("ok") is not True:
            self.problem = "it has ended" if answer is None else str(answer.get("problem"))
            return False
        return True

    async def _again(self, how: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + AGAIN_WITHIN_S
        why = how
        while loop.time() < until:
            try:
                if await self.start_on(self.port):
                    return
                why = self.problem
            except (SiteUnreachable, ConnectionLost):
                until = loop.time() + AGAIN_WITHIN_S  # whoever speaks with the site says when it is given up
            except Exception as error:  # of ssh, of what it says: whatever it is, another try may do
                why = str(error) or type(error).__name__
            await asyncio.sleep(AGAIN_PAUSE_S)
        raise SiteError(f"the relay of {self.site.name} has ended ({how}) and cannot be started again: {why}")
