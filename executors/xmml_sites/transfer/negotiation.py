"""How two ends agree, over ssh, on what is copied and on the way for it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from xmml_native.transfer import COPY_VERSION as VERSION

from xmml.late_dataclass import dataclass
from xmml_sites.transfer.message_stream import ConnectionBroken, PipeMessageStream
from xmml_sites.transfer.messages import Malformed, MessageKind, pack, unpack
from xmml_sites.transfer.path_message_stream import (
    OPEN_LIMIT_S,
    Keys,
    PathMessageStream,
    SinglePathListener,
    credentials,
    dial,
    fresh_secret,
)
from xmml_sites.transfer.progress import Progress
from xmml_sites.transfer.settings import Settings, TransferMethod
from xmml_sites.transfer.switching import Aside, SwitchingChannel

if TYPE_CHECKING:
    from xmml_sites.transfer.remote_end import RemoteEnd

#: The end that listens waits a little longer than the other tries.
_ACCEPT_LIMIT_S = OPEN_LIMIT_S + 1


class Refused(Exception):
    """The other end will not take part, or cannot be reached in any way that is allowed; the text says why."""


@dataclass(frozen=True)
class CopyRequest:
    """What the remote end shall do: be the source of `paths`, or the target for so many sources at `destination`."""

    gives: bool
    paths: Sequence[str]
    destination: str
    compare: bool

    def values(self) -> Mapping[str, object]:
        """Return the request as it is sent."""
        return {
            "gives": self.gives,
            "paths": list(self.paths),
            "destination": self.destination,
            "compare": self.compare,
        }

    @classmethod
    def read(cls, values: object) -> CopyRequest:
        """Return the request that was sent.

        Raises:
            Malformed: it is none.
        """
        match values:
            case {"gives": bool(gives), "paths": [*paths], "destination": str(destination), "compare": bool(compare)}:
                return cls(gives, [str(path) for path in paths], destination, compare)
            case _:
                raise Malformed("the request of the other end")


def agree(
    remote: RemoteEnd, request: CopyRequest, settings: Settings, progress: Progress
) -> PathMessageStream | SwitchingChannel:
    """Send the remote end the request; return the channel for the copy.

    If ssh is one of the ways allowed, the copy begins through ssh and goes over to the first other way that opens. So
    no copy waits for a firewall that drops connections.

    Raises:
        NoRemoteEnd: there is none.
        Refused: the remote end will not, or no way of those allowed leads there.
        ConnectionBroken: the ssh connection is gone.
    """
    over_ssh, host = remote.channel, remote.host
    mine, secret = credentials(), fresh_secret()
    others = [way for way in settings.ways if way != TransferMethod.SSH]
    # What the remote end is sure to be told lies there when it begins: every answer that is waited for is a round trip.
    with contextlib.suppress(ConnectionBroken):  # then it does not begin, and why is known better
        over_ssh.send(pack(MessageKind.HELLO, VERSION, request.values(), secret, mine.fingerprint))
        if TransferMethod.SSH in settings.ways:
            over_ssh.send(pack(MessageKind.GO, str(TransferMethod.SSH)))
        if others[:1] == [TransferMethod.DIAL]:
            over_ssh.send(pack(MessageKind.LISTEN, *settings.ports))
    remote.await_start()
    match _expect(over_ssh, MessageKind.READY):
        case [_, str(fingerprint), str(there), str(here)]:
            keys = Keys(_RUN, secret, mine, fingerprint)
        case _:
            raise Malformed("READY")
    search = _Search(others, settings, keys, there or host.rpartition("@")[2], here, progress)
    if TransferMethod.SSH not in settings.ways:
        progress.way(others[0].words)
        path = search.path(over_ssh)
        over_ssh.send(pack(MessageKind.GO, str(path.way)))
        return path
    progress.way(TransferMethod.SSH.words)
    channel = SwitchingChannel(over_ssh, leads=True)
    threading.Thread(target=search.go_over, args=(channel,), daemon=True).start()
    return channel


#: Paths of different runs are strangers to each other; the secret tells copies apart.
_RUN = "copy"


class _MethodFailed(Exception):
    """A way that was tried does not lead there."""


@dataclass
class _Search:
    """Tries ways to open a path; `there` and `here` are the addresses of the ends as ssh sees them."""

    ways: Sequence[TransferMethod]
    settings: Settings
    keys: Keys
    there: str
    here: str
    progress: Progress

    def go_over(self, channel: SwitchingChannel) -> None:
        """Move a copy to the first way that opens, if one does."""
        with contextlib.suppress(Refused, ConnectionBroken, Malformed):  # then the copy stays with ssh
            path = self.path(channel.aside)
            channel.found(path)
            channel.go_over()
            self.progress.way(path.way.words)

    def path(self, talk: PipeMessageStream | Aside) -> PathMessageStream:
        """Open a path by the first way that leads to the other end.

        Args:
            talk: carries the agreement with the remote end.

        Raises:
            Refused: none does; the text says why of each.
            ConnectionBroken: the ssh connection is gone, or the copy is done.
        """
        failures: list[str] = []
        for way in self.ways:
            try:
                if way == TransferMethod.DIALLED:
                    return self._be_dialled(talk)
                if way != self.ways[0]:
                    talk.send(pack(MessageKind.LISTEN, *self.settings.ports))
                return self._dial(talk)
            except _MethodFailed as problem:
                failures.append(f"{way.words}: {problem}")
        raise Refused("; ".join(failures))

    def _dial(self, talk: PipeMessageStream | Aside) -> PathMessageStream:
        kind, values = unpack(talk.receive())
        if kind == MessageKind.NOT_JOINED:
            raise _MethodFailed(str(*values))
        if kind != MessageKind.LISTENING or len(values) != 1 or not isinstance(values[0], int):
            raise Malformed(f"{kind.name} instead of LISTENING")
        try:
            addresses = [self.settings.address or self.there]
            return dial(addresses, values[0], self.keys, TransferMethod.DIAL, self.settings.streams)
        except ConnectionBroken as error:
            _joined(talk)  # the remote end reads no other message before it has given this way up
            raise _MethodFailed(str(error)) from error

    def _be_dialled(self, talk: PipeMessageStream | Aside) -> PathMessageStream:
        try:
            door = SinglePathListener(self.settings.ports, self.keys, TransferMethod.DIALLED, self.settings.streams)
        except ConnectionBroken as error:
            raise _MethodFailed(str(error)) from error
        address = self.settings.address or self.here
        talk.send(pack(MessageKind.DIAL, [address] if address else [], door.port, self.settings.streams))
        if (reason := _joined(talk)) is not None:
            raise _MethodFailed(reason)
        try:
            return door.accept(_ACCEPT_LIMIT_S)
        except ConnectionBroken as error:
            raise _MethodFailed(str(error)) from error


def _joined(talk: PipeMessageStream | Aside) -> str | None:
    """Why the remote end has not come to the path; None if it has."""
    kind, values = unpack(talk.receive())
    if kind == MessageKind.JOINED:
        return None
    if kind == MessageKind.NOT_JOINED and values:
        return str(values[0])
    raise Malformed(f"{kind.name} instead of JOINED")


def _expect(channel: PipeMessageStream, wanted: MessageKind) -> list[object]:
    kind, values = unpack(channel.receive())
    if kind == MessageKind.REFUSED and values:
        raise Refused(str(values[0]))
    if kind != wanted:
        raise Malformed(f"{kind.name} instead of {wanted.name}")
    return values


class Responder:
    """The remote end's side of the agreement."""

    def __init__(self, over_ssh: PipeMessageStream, gone_over: Callable[[], object]) -> None:
        """`gone_over` is called when the copy travels on a path, and the ssh connection carries no more messages."""
        self._over_ssh, self._gone_over = over_ssh, gone_over
        self._mine = credentials()
        self._keys: Keys | None = None

    def await_request(self) -> CopyRequest:
        """Wait for the request of the other end.

        Raises:
            Refused: the other end speaks another version.
        """
        kind, values = unpack(self._over_ssh.receive())
        if kind != MessageKind.HELLO or not values:
            raise Malformed(f"{kind.name} instead of HELLO")
        if values[0] != VERSION:
            raise Refused(
                f"you speak version {values[0]} of the protocol, this end {VERSION}; install the same xMML at both"
            )
        match values:
            case [_, request, bytes(secret), str(fingerprint)] if secret:
                self._keys = Keys(_RUN, secret, self._mine, fingerprint)
                return CopyRequest.read(request)
            case _:
                raise Malformed("HELLO")

    def follow(self) -> PathMessageStream | SwitchingChannel:
        """Report that this end is ready, and open paths as requested until the copy begins; return its channel."""
        client, _, server, *_ = [*os.environ.get("SSH_CONNECTION", "").split(), "", "", "", ""]
        self._over_ssh.send(pack(MessageKind.READY, VERSION, self._mine.fingerprint, server, client))
        path: PathMessageStream | None = None
        while True:
            kind, values = unpack(self._over_ssh.receive())
            match kind, values:
                case MessageKind.GO, [TransferMethod.SSH.value]:
                    channel = SwitchingChannel(self._over_ssh, leads=False, gone_over=self._gone_over)
                    threading.Thread(target=self._search, args=(channel,), daemon=True).start()
                    return channel
                case MessageKind.GO, [way] if path is not None and way == path.way:
                    self._gone_over()
                    return path
                case _:
                    path = self._opened(kind, values, self._over_ssh)
                    if path is not None:
                        self._over_ssh.send(pack(MessageKind.JOINED))

    def _search(self, channel: SwitchingChannel) -> None:
        """Open paths while a copy goes on through ssh."""
        with contextlib.suppress(ConnectionBroken, Malformed):
            while True:
                path = self._opened(*unpack(channel.aside.receive()), channel.aside)
                if path is not None:
                    # First: the other end may go over before it receives JOINED, which waits behind files.
                    channel.found(path)
                    channel.aside.send(pack(MessageKind.JOINED))

    def _opened(
        self, kind: MessageKind, values: list[object], talk: PipeMessageStream | Aside
    ) -> PathMessageStream | None:
        """Return a path by the way that the other end requests; send NOT_JOINED if that way does not open."""
        assert self._keys is not None, "the request comes first"
        try:
            match kind, values:
                case MessageKind.LISTEN, [int(first), int(last)] if 0 <= first <= last < 1 << 16:
                    door = SinglePathListener((first, last), self._keys, TransferMethod.DIAL, None)
                    talk.send(pack(MessageKind.LISTENING, door.port))
                    return door.accept(_ACCEPT_LIMIT_S)
                case MessageKind.DIAL, [[*addresses], int(port), int() | None as streams] if 0 < port < 1 << 16:
                    return dial(
                        [str(address) for address in addresses], port, self._keys, TransferMethod.DIALLED, streams
                    )
                case _:
                    raise Malformed(f"{kind.name} while the way is agreed upon")
        except ConnectionBroken as error:
            talk.send(pack(MessageKind.NOT_JOINED, str(error)))
            return None
