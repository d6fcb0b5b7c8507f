"""The channel to the jobs of a run at one site: orders go there, reports come back, and neither is lost or doubled when
the connection breaks and is made again."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from xmml_sites.ssh import RemoteProcess, Transport, TransportError

from xmml.late_dataclass import dataclass
from xmml_executors.launch.timeouts import LEASE_S, every_s
from xmml_executors.protocol import AgentReport, Order, agent_report, order_object

#: A connection over which nothing comes while so many signs of life are sent is made anew.
STALLED_AFTER = 4
#: From the loss of the connection to the first attempt to make it again, and the longest pause between attempts.
RETRY_S = 0.2
LONGEST_RETRY_S = 5.0
#: A report is not longer; something else has written into the file.
LONGEST_REPORT_CHARACTERS = 32 * 1024 * 1024


@dataclass(frozen=True)
class Gone:
    """The agent of a node is not there any more, or its node."""

    why: str


OnReport = Callable[[str, AgentReport | Gone], None]


class SiteTimedOut(Exception):
    """A site was not reached for so long that it was given up."""

    def __init__(self, site: str, for_s: float, why: str) -> None:
        super().__init__(f"site {site} has not been reached for {for_s:.0f} s ({why})")
        self.site = site


class SiteSession:
    """Between us and the agents at one site.

    Orders are kept until the site has said that they are in the file of their job; reports are counted in bytes of the
    file that they are read from. So a new connection goes on where the last one ended.
    """

    def __init__(
        self,
        site: str,
        transport: Transport,
        agent: str,
        on_report: OnReport,
        lease_s: float = LEASE_S,
    ) -> None:
        """
        Args:
            agent: the command of the agent at the site.
            on_report: is called with the folder of the agent and its report.
            lease_s: what runs at the site ends when it has not heard of us for so long.
        """
        self.site = site
        self._transport = transport
        self._agent = agent
        self._on_report = on_report
        self._lease_s = lease_s
        self._every_s = every_s(lease_s)
        #: How long the site may be silent.
        self.site_timeout_s = lease_s
        self._why_silent = ""
        self._lease = 0
        self._offsets: dict[str, int] = {}
        self._orders: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._numbers: dict[str, int] = {}
        self._watched: dict[str, list[str | int]] = {}
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._process: RemoteProcess | None = None
        self.heard_at = time.monotonic()

    def listen(self, job: str, offset: int = 0, number: int = 0) -> None:
        """From now on tell what a job reports. `number`: of the last order that it was given by an earlier launcher."""
        self._offsets[job] = offset
        self._orders.setdefault(job, {})
        self._numbers[job] = number
        self._send({"listen": {job: offset}})

    def tell(self, job: str, order: Order) -> None:
        """Give a job an order."""
        number = self._numbers[job] = self._numbers.get(job, 0) + 1
        numbered = {"n": number, **order_object(order)}
        self._orders.setdefault(job, {})[number] = numbered
        self._send({"to": job, "order": numbered})

    def watch(self, job: str, host: str, port: int) -> None:
        """From now on tell, as `Gone`, when the agent of a job is not there any more, or its node.

        Nothing is told if the agent cannot be reached from the login node at all.
        """
        self._watched[job] = [host, port]
        self._send({"watch": {job: [host, port]}})

    def has_orders(self) -> bool:
        """Whether the site has not taken every order yet."""
        return any(self._orders.values())

    def _send(self, what: Mapping[str, Any]) -> None:
        if self._process is not None:
            self._outgoing.put_nowait(json.dumps(what).encode() + b"\n")

    async def keep(self) -> None:
        """Keep the channel until cancelled.

        Raises:
            SiteTimedOut: the site could not be reached for too long.
            ProtocolError: an agent has reported what cannot be understood.
        """
        self.heard_at = time.monotonic()
        talking = asyncio.create_task(self._keep_talking())
        try:
            while (silent_s := time.monotonic() - self.heard_at) <= self.site_timeout_s:
                await asyncio.wait([talking], timeout=min(self._every_s, self.site_timeout_s - silent_s))
                if talking.done():
                    talking.result()
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)
        raise SiteTimedOut(self.site, silent_s, self._why_silent or "it does not answer")

    async def _keep_talking(self) -> None:
        """Make the connection again whenever it was lost."""
        pause = RETRY_S
        while True:
            try:
                await self._talk()
                self._why_silent = "the connection ended"
            except TransportError as error:
                self._why_silent = str(error)
            finally:
                self._process = None
            pause = RETRY_S if time.monotonic() - self.heard_at < RETRY_S else min(2 * pause, LONGEST_RETRY_S)
            await asyncio.sleep(pause)

    async def _talk(self) -> None:
        process = await self._transport.start(f"exec {self._agent} talk", lease_s=self._lease_s / 3)
        self._outgoing = asyncio.Queue()
        self._process = process
        self._send({"listen": self._offsets})
        self._send({"watch": self._watched})
        for job, orders in self._orders.items():
            for number in sorted(orders):
                self._send({"to": job, "order": orders[number]})
        tasks = [asyncio.create_task(each) for each in (self._hear(process), self._say(process), self._live())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _hear(self, process: RemoteProcess) -> None:
        rest = ""
        async for piece in process.lines():
            self.heard_at = time.monotonic()
            # A long line comes in pieces: it is complete when it is JSON.
            try:
                what = json.loads(rest + piece)
            except ValueError:
                rest += piece
                if len(rest) > LONGEST_REPORT_CHARACTERS:
                    raise TransportError(self.site, "a job has reported something that cannot be read") from None
                continue
            rest = ""
            self._take(what)

    def _take(self, what: Mapping[str, Any]) -> None:
        if "taken" in what:
            self._orders.get(what["by"], {}).pop(what["taken"], None)
        elif "from" in what and what["next"] > self._offsets.get(what["from"], 0):
            self._offsets[what["from"]] = what["next"]
            self._on_report(what["from"], agent_report(what["report"], f"{self.site}, job {what['from']}"))
        elif "gone" in what:
            self._watched.pop(what["gone"], None)
            self._on_report(what["gone"], Gone(what["why"]))

    async def _say(self, process: RemoteProcess) -> None:
        while True:
            data = await self._outgoing.get()
            while not self._outgoing.empty() and len(data) < 1 << 18:
                data += self._outgoing.get_nowait()
            await process.write(data)

    async def _live(self) -> None:
        while True:
            self._lease += 1
            self._send({"lease": f"{time.time():.0f}.{self._lease}", "s": self._lease_s})
            await asyncio.sleep(self._every_s)
            stalled_s = STALLED_AFTER * self._every_s
            if time.monotonic() - self.heard_at > stalled_s:
                raise TransportError(self.site, f"nothing was heard for {stalled_s:g} s")
