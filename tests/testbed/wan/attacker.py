"""Somebody in the middle, who takes apart what two ends say to each other and passes on what an attack makes of it."""

from __future__ import annotations

import contextlib
import itertools
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from waiting import LIMIT_S
from wan import Machine

#: Bytes of the head of a frame: length of the body, kind, and what does not matter here (docs/protocol.md).
_HEAD = struct.Struct("<QB15x")
_HELLO, _CHALLENGE, _PROOF = 16, 17, 18
_PROOF_BYTES = 32
#: In the body of a hello, and of a challenge: where the public key stands. A hello says in a byte that there is one.
_KEY = slice(40, 72)
#: The public key whose private one is known to everybody: the base point of Curve25519.
_THEIR_KEY = b"\x09" + bytes(31)
_ROLE, _PROTECTION = 4, 5
#: Roles of connections.
CONTROL, DATA = 1, 2
#: The record that attacks are aimed at unless they are told another: of a conduit of many values some come before it,
#: and many behind it.
STRUCK = 3


class Part(NamedTuple):
    """A frame of the handshake, or what comes behind it: a record, or a frame where nothing is protected."""

    bytes: bytes
    #: Kind of the frame; None: a record.
    kind: int | None
    #: Number of the record, or of the frame where nothing is protected; -1: a part of the handshake.
    number: int


Parts = Iterator[Part]
#: Gets what one end says from its hello or challenge on, and says what arrives instead. Where it ends, the connection
#: is closed.
Attack = Callable[[Parts], Iterator[bytes]]


def faithful(parts: Parts) -> Iterator[bytes]:
    """Pass everything on."""
    return (part.bytes for part in parts)


@dataclass(frozen=True)
class Attacks:
    """What is done to the bytes of each end of a connection."""

    dialler: Attack = faithful
    listener: Attack = faithful
    #: Only to the first connection on which that can be done, or to every one.
    always: bool = False


def rewritten(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Change a bit in the middle of a record."""
    for part in parts:
        middle = len(part.bytes) // 2
        is_struck = part.number == struck
        yield part.bytes if not is_struck else _flipped(part.bytes, middle)


def length_rewritten(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Let a record seem shorter than it is."""
    return (part.bytes if part.number != struck else _flipped(part.bytes, 0) for part in parts)


def dropped(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Leave a record out."""
    return (part.bytes for part in parts if part.number != struck)


def bytes_dropped(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Leave some bytes in the middle of a record out."""
    for part in parts:
        middle = len(part.bytes) // 2
        yield part.bytes if part.number != struck else part.bytes[:middle] + part.bytes[middle + 8 :]


def replayed(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Pass a record on twice."""
    return (part.bytes * (2 if part.number == struck else 1) for part in parts)


def replayed_later(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Pass the first record on again, instead of a later one."""
    first = b""
    for part in parts:
        first = part.bytes if part.number == 0 else first
        yield first if part.number == struck else part.bytes


def reordered(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Put a record behind the next one."""
    for part in parts:
        if part.number == struck:
            yield next(parts).bytes
        yield part.bytes


def truncated(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Close in the middle of a record."""
    for part in parts:
        if part.number == struck:
            yield part.bytes[: len(part.bytes) // 2]
            return
        yield part.bytes


def ended(parts: Parts, struck: int = STRUCK) -> Iterator[bytes]:
    """Close between two records, as an end does that has nothing more to say."""
    return (part.bytes for part in itertools.takewhile(lambda part: part.number != struck, parts))


def unprotected(parts: Parts) -> Iterator[bytes]:
    """Take the wish for protection out of the hello, and the public keys out of hello and challenge."""
    for part in parts:
        if part.kind not in (_HELLO, _CHALLENGE):
            yield part.bytes
            continue
        head, body = part.bytes[: _HEAD.size], bytearray(part.bytes[_HEAD.size :])
        if part.kind == _HELLO:
            body[_PROTECTION] = 0
        if _has_key(part):
            del body[_KEY]
        yield struct.pack("<Q", len(body)) + head[8:] + body


def other_keys(parts: Parts) -> Iterator[bytes]:
    """Put a public key of the attacker in the place of that of an end."""
    at = _HEAD.size + _KEY.start
    for part in parts:
        is_keyed = part.kind in (_HELLO, _CHALLENGE) and _has_key(part)
        yield part.bytes[:at] + _THEIR_KEY + part.bytes[at + len(_THEIR_KEY) :] if is_keyed else part.bytes


def _has_key(part: Part) -> bool:
    """Whether a hello or challenge has a public key: what stands behind would be longer without one."""
    body = part.bytes[_HEAD.size :]
    if part.kind == _HELLO:
        return body[_PROTECTION] == 1
    (name,) = struct.unpack_from("<H", body, _KEY.start)
    return len(body) != _KEY.start + 2 + name + _PROOF_BYTES


class Exchange:
    """Puts a record of each of two connections in the place of that of the other."""

    def __init__(self) -> None:
        self._offered: tuple[queue.Queue[bytes], queue.Queue[bytes]] = (queue.Queue(), queue.Queue())

    @property
    def attacks(self) -> tuple[Attack, Attack]:
        """What is done to each of the two."""
        return partial(self._exchanged, 0), partial(self._exchanged, 1)

    def _exchanged(self, end: int, parts: Parts) -> Iterator[bytes]:
        for part in parts:
            if part.number != STRUCK:
                yield part.bytes
                continue
            self._offered[end].put(part.bytes)
            yield self._offered[1 - end].get(timeout=LIMIT_S)


def _flipped(record: bytes, at: int) -> bytes:
    return record[:at] + bytes([record[at] ^ 4]) + record[at + 1 :]


@dataclass
class _Conversation:
    """A connection from one end to the other, perhaps with a relay on the way."""

    ends: tuple[socket.socket, socket.socket]
    #: Which of the two sockets leads to the one who dialled the other; None: neither has said who it wants.
    dialler: int | None = None
    is_protected: bool = False
    attacks: Attacks = field(default_factory=Attacks)

    def parts(self, end: int) -> Parts:
        """What an end says, in parts; a relay in between speaks in frames."""
        reader = self.ends[end].makefile("rb")
        is_proved, number = False, 0
        while head := reader.read(4):
            if is_proved and self.is_protected:
                length, kind = int.from_bytes(head, "little"), None
            else:
                head += reader.read(_HEAD.size - 4)
                length, kind = _HEAD.unpack(head)
            yield Part(head + reader.read(length), kind, number if is_proved else -1)
            number += is_proved
            if self.dialler is not None:
                is_proved |= kind == (_PROOF if end == self.dialler else _CHALLENGE)


class InTheMiddle:
    """Listens where an end believes the other one to be."""

    def __init__(
        self,
        machine: Machine,
        target: Callable[[], tuple[str, int]],
        attacks: Mapping[str, Attacks],
        *,
        role: int = DATA,
        flips_at: int | None = None,
    ) -> None:
        """Begin to listen.

        Args:
            machine: where.
            target: where the end that dials is led to.
            attacks: what is done to connections, by the name of the end that gets values, or the one that dials the
                coordinator.
            role: the connections that are attacked.
            flips_at: of each connection, whatever passes on it, a bit of this byte of who dials is changed, and nothing
                else.
        """
        self._flips_at = flips_at
        self._target, self._attacks, self._role = target, dict(attacks), role
        self._machine = machine
        #: By name, how many connections have been attacked.
        self.attacked: dict[str, int] = dict.fromkeys(attacks, 0)
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        with machine.network():
            self._listener = socket.create_server(("0.0.0.0", 0))
            threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Close every connection."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._sockets:
                _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target(), timeout=LIMIT_S)
            except ConnectionRefusedError:
                near.close()
                continue
            except OSError:
                return
            far.settimeout(None)
            conversation = _Conversation((near, far))
            with self._lock:
                self._sockets += conversation.ends
            for each in conversation.ends:
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for end in (0, 1):
                threading.Thread(target=self._carry, args=[conversation, end], daemon=True).start()

    def _carry(self, conversation: _Conversation, end: int) -> None:
        other = conversation.ends[1 - end]
        with contextlib.suppress(OSError):
            for passed in self._attacked(conversation, end):
                other.sendall(passed)
        _shut(other)
        _shut(conversation.ends[end])

    def _attacked(self, conversation: _Conversation, end: int) -> Iterator[bytes]:
        if self._flips_at is not None:
            yield from _with_a_bit_flipped(conversation.ends[end], self._flips_at if end == 0 else None)
            return
        parts = conversation.parts(end)
        for part in parts:
            self._recognise(conversation, end, part)
            if conversation.dialler is None:
                yield part.bytes
                continue
            attacks = conversation.attacks
            attack = attacks.dialler if conversation.dialler == end else attacks.listener
            yield from attack(itertools.chain([part], parts))
            return

    def _recognise(self, conversation: _Conversation, end: int, part: Part) -> None:
        """See from its hello whom a connection is between."""
        body = part.bytes[_HEAD.size :]
        if conversation.dialler is not None or part.kind != _HELLO or body[_ROLE] not in (CONTROL, DATA):
            return
        with self._lock:
            if body[_ROLE] == self._role:
                name = _names(body)[0 if self._role == CONTROL else 1]
                attacks = self._attacks.get(name)
                if attacks and (attacks.always or self.attacked[name] == 0):
                    conversation.attacks = attacks
                    self.attacked[name] += 1
            conversation.is_protected = body[_PROTECTION] == 1
            conversation.dialler = end


def _with_a_bit_flipped(end: socket.socket, flips_at: int | None) -> Iterator[bytes]:
    at = 0
    while came := end.recv(1 << 16):
        is_here = flips_at is not None and at <= flips_at < at + len(came)
        yield _flipped(came, flips_at - at) if is_here and flips_at is not None else came
        at += len(came)


def _names(hello: bytes) -> tuple[str, str]:
    """Who dials whom."""
    at = _KEY.stop if hello[_PROTECTION] else _KEY.start
    texts = []
    for _ in range(3):
        (length,) = struct.unpack_from("<H", hello, at)
        texts.append(hello[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return texts[1], texts[2]


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
