"""How two ends agree, over ssh, on what is copied and on the way for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xmml.late_dataclass import dataclass
from xmml_executors.copying.channel import Broken, Channel
from xmml_executors.copying.messages import VERSION, Malformed, Say, pack, unpack
from xmml_executors.copying.path_channel import (
    OPEN_LIMIT_S,
    Door,
    Keys,
    PathChannel,
    credentials,
    dial,
    fresh_secret,
)
from xmml_executors.copying.progress import Progress
from xmml_executors.copying.settings import Settings, Way

if TYPE_CHECKING:
    from xmml_executors.copying.ssh import RemoteEnd

#: The end that listens waits a little longer than the other tries.
_ACCEPT_LIMIT_S = OPEN_LIMIT_S + 1


class Refused(Exception):
    """The other end will not take part, or cannot be reached in any way that is allowed; the text says why."""


@dataclass(frozen=True)
class Wish:
    """What the remote end shall do: be the source of `paths`, or the target for so many sources at `destination`."""

    gives: bool
    paths: Sequence[str]
    destination: str
    compare: bool

    def values(self) -> Mapping[str, object]:
        """The wish as it is sent."""
        return {
            "gives": self.gives,
            "paths": list(self.paths),
            "destination": self.destination,
            "compare": self.compare,
        }

    @classmethod
    def read(cls, values: object) -> Wish:
        """The wish that was sent.

        Raises:
            Malformed: it is none.
        """
        match values:
            case {"gives": bool(gives), "paths": [*paths], "destination": str(destination), "compare": bool(compare)}:
                return cls(gives, [str(path) for path in paths], destination, compare)
            case _:
                raise Malformed("the wish of the other end")


def agree(remote: RemoteEnd, wish: Wish, settings: Settings, progress: Progress) -> tuple[Channel, Way]:
    """Tells the remote end what to do and finds a way; returns the channel for the copy.

    Raises:
        NoRemoteEnd: there is none.
        Refused: the remote end will not, or no way of those allowed leads there.
        Broken: the ssh connection is gone.
    """
    over_ssh, host = remote.channel, remote.host
    mine, secret = credentials(), fresh_secret()
    # What the remote end is sure to be told lies there when it begins: every answer that is waited for is a round trip.
    with contextlib.suppress(Broken):  # then it does not begin, and why is known better
        over_ssh.send(pack(Say.HELLO, VERSION, wish.values(), secret, mine.fingerprint))
        if settings.ways[0] == Way.DIAL:
            over_ssh.send(pack(Say.LISTEN, *settings.ports))
    remote.await_start()
    match _expect(over_ssh, Say.READY):
        case [_, str(fingerprint), str(there), str(here)]:
            keys = Keys(_RUN, secret, mine, fingerprint)
        case _:
            raise Malformed("READY")
    there = there or host.rpartition("@")[2]
    failures: list[str] = []
    for way in settings.ways:
        progress.way(way.words)
        try:
            channel: Channel = over_ssh
            if way == Way.DIAL:
                if way != settings.ways[0]:
                    over_ssh.send(pack(Say.LISTEN, *settings.ports))
                channel = _dial(over_ssh, [settings.address or there], keys, settings)
            elif way == Way.DIALLED:
                channel = _be_dialled(over_ssh, [settings.address or here], keys, settings)
        except _NoWay as problem:
            failures.append(f"{way.words}: {problem}")
            continue
        over_ssh.send(pack(Say.GO, str(way)))
        return channel, way
    raise Refused("; ".join(failures))


#: Paths of different runs are strangers to each other; the secret tells copies apart.
_RUN = "copy"


class _NoWay(Exception):
    """A way that was tried does not lead there."""


def _dial(over_ssh: Channel, addresses: Sequence[str], keys: Keys, settings: Settings) -> PathChannel:
    kind, values = unpack(over_ssh.receive())
    if kind == Say.NOT_JOINED:
        raise _NoWay(str(*values))
    if kind != Say.LISTENING or len(values) != 1 or not isinstance(values[0], int):
        raise Malformed(f"{kind.name} instead of LISTENING")
    path, problem = None, ""
    try:
        path = dial(addresses, values[0], keys, settings.streams)
    except Broken as error:
        problem = str(error)
    joined = _joined(over_ssh)
    if path is None or joined is not None:
        raise _NoWay(problem or str(joined))
    return path


def _be_dialled(over_ssh: Channel, addresses: Sequence[str], keys: Keys, settings: Settings) -> PathChannel:
    try:
        door = Door(settings.ports, keys, settings.streams)
    except Broken as error:
        raise _NoWay(str(error)) from error
    over_ssh.send(pack(Say.DIAL, [each for each in addresses if each], door.port, settings.streams))
    path, problem = None, ""
    try:
        path = door.accept(_ACCEPT_LIMIT_S)
    except Broken as error:
        problem = str(error)
    joined = _joined(over_ssh)
    if path is None or joined is not None:
        raise _NoWay(str(joined or problem))
    return path


def _joined(over_ssh: Channel) -> str | None:
    """Why the remote end has not come to the path; None if it has."""
    kind, values = unpack(over_ssh.receive())
    if kind == Say.JOINED:
        return None
    if kind == Say.NOT_JOINED and values:
        return str(values[0])
    raise Malformed(f"{kind.name} instead of JOINED")


def _expect(channel: Channel, wanted: Say) -> list[object]:
    kind, values = unpack(channel.receive())
    if kind == Say.REFUSED and values:
        raise Refused(str(values[0]))
    if kind != wanted:
        raise Malformed(f"{kind.name} instead of {wanted.name}")
    return values


class Answering:
    """The remote end's side of the agreement."""

    def __init__(self, over_ssh: Channel) -> None:
        self._over_ssh = over_ssh
        self._mine = credentials()
        self._keys: Keys | None = None
        self._path: PathChannel | None = None

    def await_wish(self) -> Wish:
        """Waits for what this end shall do.

        Raises:
            Refused: the other end speaks another version.
        """
        kind, values = unpack(self._over_ssh.receive())
        if kind != Say.HELLO or not values:
            raise Malformed(f"{kind.name} instead of HELLO")
        if values[0] != VERSION:
            raise Refused(
                f"you speak version {values[0]} of the protocol, this end {VERSION}; install the same xMML at both"
            )
        match values:
            case [_, wish, bytes(secret), str(fingerprint)] if secret:
                self._keys = Keys(_RUN, secret, self._mine, fingerprint)
                return Wish.read(wish)
            case _:
                raise Malformed("HELLO")

    def follow(self) -> Channel:
        """Says that this end is ready, and does what it is told until the copy begins; returns the channel for it."""
        client, _, server, *_ = [*os.environ.get("SSH_CONNECTION", "").split(), "", "", "", ""]
        self._over_ssh.send(pack(Say.READY, VERSION, self._mine.fingerprint, server, client))
        while True:
            kind, values = unpack(self._over_ssh.receive())
            match kind, values:
                case Say.LISTEN, [int(first), int(last)] if 0 <= first <= last < 1 << 16:
                    self._listen((first, last))
                case Say.DIAL, [[*addresses], int(port), int() | None as streams] if 0 < port < 1 << 16:
                    self._dial([str(address) for address in addresses], port, streams)
                case Say.GO, [Way.SSH.value]:
                    return self._over_ssh
                case Say.GO, [Way.DIAL.value | Way.DIALLED.value] if self._path is not None:
                    return self._path
                case _:
                    raise Malformed(f"{kind.name} while the way is agreed upon")

    def _listen(self, ports: tuple[int, int]) -> None:
        try:
            door = Door(ports, self._known(), None)
            self._over_ssh.send(pack(Say.LISTENING, door.port))
            self._path = door.accept(_ACCEPT_LIMIT_S)
        except Broken as error:
            self._over_ssh.send(pack(Say.NOT_JOINED, str(error)))
            return
        self._over_ssh.send(pack(Say.JOINED))

    def _dial(self, addresses: list[str], port: int, streams: int | None) -> None:
        try:
            self._path = dial(addresses, port, self._known(), streams)
        except Broken as error:
            self._over_ssh.send(pack(Say.NOT_JOINED, str(error)))
            return
        self._over_ssh.send(pack(Say.JOINED))

    def _known(self) -> Keys:
        assert self._keys is not None, "the wish comes first"
        return self._keys
