"""The channel to the jobs of a run at one site: orders go there, reports come back, and neither is lost or doubled when
the connection breaks and is made again. The runs of a process share the connection, and their relays are at its other
end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xmml_sites.lease import LEASE_S
from xmml_sites.ssh import ConnectionLost, OwnProcess, Transport, TransportError

from xmml.late_dataclass import dataclass
from xmml_executors.executor import Tell
from xmml_executors.launch.site.gateway_protocol import (
    AgentExited,
    AgentNews,
    AgentReported,
    GatewayMessage,
    LeasesRenewed,
    OrderNotWritten,
    OrderWritten,
    ProxyFailed,
    ProxyStarted,
    RelayAnswer,
    RelayEnded,
    gateway_message,
)
from xmml_executors.launch.site.timeouts import lease_of_gateway_s, renewal_interval_s
from xmml_executors.outcome import SiteError
from xmml_executors.protocol import AgentReport, Order, agent_report, order_object
from xmml_executors.typed_json import ProtocolError

#: Reconnect after so many unanswered signs of life. Do not set this below the time-out of ssh itself: a reconnect ends
#: the relays in the remote process.
STALLED_AFTER = 7
#: The pause before the first attempt to reconnect, and the longest pause between attempts. Each attempt doubles it, and
#: an answer of the site sets it back.
RETRY_S = 0.2
LONGEST_RETRY_S = 5.0
#: How long a process whose output has ended may take to exit, so that its status can be told.
EXITS_WITHIN_S = 5.0
#: A report is not longer; something else writes to us.
LONGEST_REPORT_CHARACTERS = 32 * 1024 * 1024
#: How much is shown of what is no report.
SHOWN_CHARACTERS = 60
#: So long a relay may take to end when it is told to.
RELAY_ENDS_WITHIN_S = 4.0
#: Stands between the folder of a run at the site and that of an agent.
JOBS = "/jobs/"


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


class GatewayConnection:
    """The connection to the gateway of a site, kept as long as a run of this process, or a relay of one, needs it."""

    def __init__(self, site: str, transport: Transport, lease_s: float = LEASE_S) -> None:
        """
        Args:
            lease_s: what runs at the site ends when it has not heard of us for so long.
        """
        self.site = site
        self.lease_s = lease_s
        self.every_s = renewal_interval_s(lease_s)
        #: When the proxy last did its work, and why it has not since. A site is given up by this clock.
        self.proxy_heard_at = time.monotonic()
        self.why_silent = ""
        #: The failure of the proxy that people have been told of, while it lasts.
        self._told_failure = ""
        #: When the gateway last answered a sign of life. It does while the proxy waits for a file system, and relays go
        #: on. The connection is made again by this clock.
        self._gateway_heard_at = time.monotonic()
        self._transport = transport
        self._sessions: dict[str, SiteSession] = {}
        self._relays: dict[int, RelayChannel] = {}
        self._numbers = itertools.count()
        self._lease = 0
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._process: OwnProcess | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pause_s = RETRY_S
        #: The gateway begins; done when it has, or could not.
        self._beginning: asyncio.Future[None]

    def join(self, session: SiteSession) -> None:
        """Connect a run, too; begin the gateway if none runs."""
        self._sessions[session.folder] = session
        self._open(session)
        self._renew_lease()
        self._begin()

    async def leave(self, session: SiteSession) -> None:
        """Disconnect a run; end the gateway if nobody else needs it."""
        self._sessions.pop(session.folder, None)
        self.send({"forget": list(session.agents())})
        await self._end_unless_needed()

    async def start_relay(self, command: str, words: Sequence[str]) -> RelayChannel:
        """Start a relay in the gateway.

        Args:
            command: starts the gateway, if none runs yet; the words of its command line follow.
            words: those that would stand on the command line of the relay.

        Raises:
            TransportError: the site cannot be reached.
        """
        number = next(self._numbers)
        relay = self._relays[number] = RelayChannel(self, number, command)
        self._begin()
        try:
            await asyncio.shield(self._beginning)
        except BaseException:
            await self.forget_relay(number)
            raise
        self.send({"relay": number, "start": list(words)})
        return relay

    async def forget_relay(self, number: int) -> None:
        """Drop a relay that has ended, or ends by itself."""
        if (relay := self._relays.pop(number, None)) is not None:
            relay.end_with("")
        await self._end_unless_needed()

    def send(self, what: Mapping[str, Any]) -> None:
        """Send a line to the gateway, if it is connected."""
        if self._process is not None:
            self._outgoing.put_nowait(json.dumps(what).encode() + b"\n")

    def _begin(self) -> None:
        if self._connecting is None:
            self.proxy_heard_at, self.why_silent, self._pause_s = time.monotonic(), "", RETRY_S
            self._beginning = asyncio.get_running_loop().create_future()
            self._connecting = asyncio.create_task(self._keep_connected())

    async def _end_unless_needed(self) -> None:
        if not self._sessions and not self._relays and self._connecting is not None:
            connecting, self._connecting = self._connecting, None
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)

    async def _keep_connected(self) -> None:
        """Reconnect whenever the connection was lost."""
        while True:
            try:
                await self._serve()
            except TransportError as error:
                self.why_silent = str(error)
                self._on_connection_lost(error)
            except Exception as error:  # also a mistake of ours: it must not leave the runs waiting
                for session in self._sessions.values():
                    session.fail(error)
                self._sessions.clear()
                self._on_connection_lost(TransportError(self.site, str(error)))
            if not self._sessions:  # a relay that is started again begins a connection
                self._connecting = None
                return
            self._beginning = asyncio.get_running_loop().create_future()
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_RETRY_S)

    def _on_connection_lost(self, error: TransportError) -> None:
        """Report the loss of the gateway to whoever waits for it, and to its relays."""
        if not self._beginning.done():
            self._beginning.set_exception(error)
            self._beginning.exception()  # nobody need wait for it
        for relay in self._relays.values():
            relay.end_with(error)
        self._relays.clear()

    async def _serve(self) -> None:
        """Start the gateway and exchange lines with it until cancelled.

        Raises:
            TransportError: it cannot be reached any more.
        """
        # A run may end before the gateway does; relays have folders that stay.
        users: list[RelayChannel | SiteSession] = [*self._relays.values(), *self._sessions.values()]
        process = await self._transport.start_program(
            f"{users[0].command} talk", lease_s=lease_of_gateway_s(self.lease_s)
        )
        self._outgoing = asyncio.Queue()
        self._process = process
        self._gateway_heard_at = time.monotonic()
        self._beginning.set_result(None)
        for session in self._sessions.values():
            self._open(session)
        tasks = [
            asyncio.create_task(each)
            for each in (self._receive(process), self._send_queued(process), self._send_heartbeats())
        ]
        broken: ConnectionLost | None = None
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except ConnectionLost as error:
            broken = error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._process is process:  # else somebody has needed another one meanwhile
                self._process = None
            with contextlib.suppress(TransportError, OSError):
                await process.close_stdin()
        raise await self._why_ended(process, broken)

    async def _why_ended(self, process: OwnProcess, broken: ConnectionLost | None) -> TransportError:
        """Return why nothing more comes from the gateway: it has exited, or the connection to it was lost."""
        try:
            async with asyncio.timeout(EXITS_WITHIN_S):
                return TransportError(self.site, f"the site gateway has ended with {await process.how_ended()}")
        except ConnectionLost as error:
            return error
        except TimeoutError:
            return broken or TransportError(self.site, "the site gateway has closed its output")

    def _open(self, session: SiteSession) -> None:
        for what in session.opening():
            self.send(what)

    async def _receive(self, process: OwnProcess) -> None:
        rest = ""
        async for piece in process.lines():
            self._gateway_heard_at = time.monotonic()
            self._pause_s = RETRY_S
            if not piece and not rest:
                continue  # a sign of life
            # A long line comes in pieces: it is complete when it is JSON.
            try:
                what = json.loads(rest + piece)
            except RecursionError:
                raise SiteError(self._not_json(rest + piece)) from None
            except ValueError:
                self.proxy_heard_at = time.monotonic()
                rest += piece
                if len(rest) > LONGEST_REPORT_CHARACTERS:
                    raise SiteError(self._not_json(rest)) from None
                continue
            rest = ""
            self._take(gateway_message(what, f"the gateway of site {self.site}"))

    def _not_json(self, text: str) -> str:
        return (
            f"site {self.site}: the site gateway has sent {len(text)} characters that are not JSON, beginning with "
            f"{text[:SHOWN_CHARACTERS]!r}: something else prints there, a login script or a program in the place of mto"
        )

    def _take(self, message: GatewayMessage) -> None:
        match message:
            case RelayEnded(number, why):
                if (relay := self._relays.pop(number, None)) is not None:
                    relay.end_with(why)
            case RelayAnswer(number, answer):
                if number in self._relays:
                    self._relays[number].take(answer)
            case ProxyFailed(why):
                # Only what comes after this goes to a new one, so that no order overtakes those that the old one had.
                self._report_proxy_failure(why)
                self.send({"proxy": "begin"})
                for each in self._sessions.values():
                    self._open(each)
                self._renew_lease()
            case ProxyStarted():
                """It has begun; whether it can do its work is not known yet."""
            case LeasesRenewed(unwritten=unwritten):
                self._note_proxy_works()
                for folder, each in self._sessions.items():
                    each.renewed(unwritten.get(folder, ""))
            case OrderWritten() | AgentReported() | AgentExited() | OrderNotWritten():
                self._note_proxy_works()
                folder, _, agent = message.agent.rpartition(JOBS)
                if (session := self._sessions.get(folder)) is not None:
                    try:
                        session.take(agent, message)
                    except SiteError as error:  # the other runs understand theirs, and have their folders
                        session.fail(error)

    def _note_proxy_works(self) -> None:
        self.proxy_heard_at, self._told_failure = time.monotonic(), ""

    def _report_proxy_failure(self, why: str) -> None:
        self.why_silent = why
        if why != self._told_failure:
            self._told_failure = why
            for session in self._sessions.values():
                session.tell_people(f"the login proxy fails and begins again: {why}", self.site)

    async def _send_queued(self, process: OwnProcess) -> None:
        while True:
            data = await self._outgoing.get()
            while not self._outgoing.empty() and len(data) < 1 << 18:
                data += self._outgoing.get_nowait()
            await process.write(data)

    async def _send_heartbeats(self) -> None:
        while True:
            self._renew_lease()
            self._outgoing.put_nowait(b"\n")  # answered also while the proxy waits for a file system
            await asyncio.sleep(self.every_s)
            stalled_s = STALLED_AFTER * self.every_s
            if time.monotonic() - self._gateway_heard_at > stalled_s:
                raise TransportError(self.site, f"nothing was heard for {stalled_s:g} s")

    def _renew_lease(self) -> None:
        self._lease += 1
        self.send({"lease": f"{time.time():.0f}.{self._lease}", "s": self.lease_s, "runs": list(self._sessions)})


class RelayChannel:
    """The channel to a relay in the gateway of a site, from one start of it to its end.

    Attributes:
        command: shell text that becomes the gateway; the words of its command line follow.
    """

    def __init__(self, gateway: GatewayConnection, number: int, command: str) -> None:
        """
        Args:
            number: the gateway knows the relay by this.
        """
        self.command = command
        self._gateway = gateway
        self._number = number
        #: Who waits for its answers, in the order of the requests; its status comes first, without a request. One that
        #: waits no more keeps its place, so that nobody else gets its answer.
        self._awaited: deque[asyncio.Future[Mapping[str, Any] | None]] = deque()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._status = self._next_answer()

    async def status(self) -> Mapping[str, Any] | None:
        """Return the status that the relay reports once it has begun; `None`: it has ended."""
        return await self._status

    async def ask(self, what: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Send it a request; return the answer. `None`: it has ended."""
        if self._ended.done():
            return None
        answer = self._next_answer()
        self._gateway.send({"relay": self._number, "request": what})
        return await answer

    def _next_answer(self) -> asyncio.Future[Mapping[str, Any] | None]:
        answer: asyncio.Future[Mapping[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._awaited.append(answer)
        return answer

    async def wait(self) -> str:
        """Wait until it has ended; return why, empty if it was told to.

        Raises:
            TransportError: the connection was lost. It ends by itself.
        """
        return await asyncio.shield(self._ended)

    async def end(self, *, is_given_up: bool = False) -> None:
        """End it.

        Args:
            is_given_up: do not wait until it has ended; nothing is heard of its site.
        """
        if not self._ended.done():
            self._gateway.send({"relay": self._number})
        if not is_given_up:
            with contextlib.suppress(TransportError, TimeoutError):
                async with asyncio.timeout(RELAY_ENDS_WITHIN_S):
                    await self.wait()
        await self._gateway.forget_relay(self._number)

    # --- for the connection -----------------------------------------------------------------------------------------

    def take(self, answer: Mapping[str, Any]) -> None:
        """Take an answer."""
        if self._awaited and not (awaited := self._awaited.popleft()).done():
            awaited.set_result(answer)

    def end_with(self, why: str | TransportError) -> None:
        """Note that it has ended, or cannot be reached any more."""
        if self._ended.done():
            return
        if isinstance(why, str):
            self._ended.set_result(why)
        else:
            self._ended.set_exception(why)
            self._ended.exception()  # nobody need wait for it
        for awaited in self._awaited:
            if not awaited.done():
                awaited.set_result(None)
        self._awaited.clear()


class SiteSession:
    """Between a run and its agents at one site.

    Orders are kept until the site has said that they are in the file of their agent; reports are counted in bytes of
    the file that they are read from. So a new connection goes on where the last one ended. An agent is named by its
    folder below `jobs/` (`SiteJob.agent`).

    Attributes:
        folder: of the run at the site.
        command: shell text that becomes the gateway; the words of its command line follow.
        site_timeout_s: how long the site may be silent.
    """

    def __init__(
        self,
        gateway: GatewayConnection,
        folder: str,
        command: str,
        on_report: OnReport,
        tell_people: Tell = lambda *_: None,
    ) -> None:
        """
        Args:
            on_report: is called with the folder of the agent and its report.
            tell_people: says what goes wrong at the site meanwhile.
        """
        self.folder = folder
        self.command = command
        self.site_timeout_s = gateway.lease_s
        self._gateway = gateway
        self._on_report = on_report
        self.tell_people = tell_people
        #: Why the lease of the run is not renewed although its proxy works, and since when.
        self._why_unrenewed = ""
        self._unrenewed_since = 0.0
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()
        self._offsets: dict[str, int] = {}
        self._orders: dict[str, dict[int, Mapping[str, Any]]] = {}
        self._numbers: dict[str, int] = {}
        self._watched: dict[str, list[str | int]] = {}

    def follow_reports(self, agent: str, offset: int = 0, number: int = 0) -> None:
        """Receive the reports of an agent from now on.

        Args:
            offset: where in its reports [bytes].
            number: orders are counted from this number on. A launcher that resumes a run gives the clock in seconds,
                which exceeds every number of the launcher before it.
        """
        self._offsets[agent] = offset
        self._orders.setdefault(agent, {})
        self._numbers[agent] = number
        self._gateway.send({"listen": {self._path(agent): offset}})

    def send_order(self, agent: str, order: Order) -> None:
        """Send an order to an agent."""
        number = self._numbers[agent] = self._numbers.get(agent, 0) + 1
        numbered = {"n": number, **order_object(order)}
        self._orders.setdefault(agent, {})[number] = numbered
        self._gateway.send({"to": self._path(agent), "order": numbered})

    def watch(self, agent: str, host: str, port: int) -> None:
        """Report from now on, as `Gone`, when an agent has exited, or its node does not answer any more.

        Nothing is reported if the agent cannot be reached from the login node at all.
        """
        self._watched[agent] = [host, port]
        self._gateway.send({"watch": {self._path(agent): [host, port]}})

    @property
    def has_failed(self) -> bool:
        """Whether it cannot go on: nothing is received any more."""
        return self._failure is not None

    def has_orders(self) -> bool:
        """Whether the site has not taken every order yet."""
        return any(self._orders.values())

    async def keep(self) -> None:
        """Keep the session until cancelled.

        Raises:
            SiteTimedOut: the site could not be reached for too long.
            ProtocolError: an agent has reported something that nobody understands.
            SiteError: the folder of an agent is gone.
        """
        began = time.monotonic()
        self._gateway.join(self)
        try:
            while (silent_s := time.monotonic() - max(began, self._served_at())) <= self.site_timeout_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(self._gateway.every_s, self.site_timeout_s - silent_s)):
                        await self._failed.wait()
                if self._failure is not None:
                    raise self._failure
        finally:
            await self._gateway.leave(self)
        why = self._why_unrenewed or self._gateway.why_silent or "it does not answer"
        raise SiteTimedOut(self._gateway.site, silent_s, why)

    def _served_at(self) -> float:
        """When the proxy last did its work for this run."""
        return self._unrenewed_since if self._why_unrenewed else self._gateway.proxy_heard_at

    # --- for the connection -----------------------------------------------------------------------------------------

    def agents(self) -> Iterator[str]:
        """Return the folders of the agents, as the proxy knows them."""
        return map(self._path, self._offsets)

    def opening(self) -> Iterator[Mapping[str, Any]]:
        """Return what a proxy must know of the run that knows nothing of it yet."""
        yield {"listen": {self._path(agent): offset for agent, offset in self._offsets.items()}}
        yield {"watch": {self._path(agent): at for agent, at in self._watched.items()}}
        for agent, orders in self._orders.items():
            for number in sorted(orders):
                yield {"to": self._path(agent), "order": orders[number]}

    def take(self, agent: str, news: AgentNews) -> None:
        """Take what the proxy says of an agent.

        Raises:
            ProtocolError: nobody understands it, or the run has no such agent.
            SiteError: the folder of the agent is gone, or cannot be written.
        """
        source = f"{self._gateway.site}, agent {agent}"
        if agent not in self._offsets and agent not in self._orders:
            raise ProtocolError(source, "the run has no such agent", {"agent": agent})
        match news:
            case OrderWritten(order=number):
                self._orders.get(agent, {}).pop(number, None)
            case AgentReported(next=offset, report=report):
                if offset > self._offsets.get(agent, 0):
                    self._offsets[agent] = offset
                    self._on_report(agent, agent_report(report, source))
            case AgentExited(why=why):
                self._watched.pop(agent, None)
                self._on_report(agent, Gone(why))
            case OrderNotWritten(file=file, why=why):
                gone = "its folder was removed"
                raise SiteError(f"{file} cannot be written at {self._gateway.site}: {why or gone}")

    def renewed(self, why_not: str) -> None:
        """The proxy has renewed the leases, of this run too unless there is a reason why not."""
        if why_not and not self._why_unrenewed:
            self._unrenewed_since = time.monotonic()
            self.tell_people(why_not, self._gateway.site)
        self._why_unrenewed = why_not

    def fail(self, error: BaseException) -> None:
        """The session cannot go on."""
        self._failure = error
        self._failed.set()

    def _path(self, agent: str) -> str:
        return f"{self.folder}{JOBS}{agent}"
