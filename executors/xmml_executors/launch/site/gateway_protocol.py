"""What the gateway of a site sends to the launcher: one JSON object a line.

The member `is` has the word of one of these classes, the other members are its fields. The program `mto` writes them
(the Rust modules `multiplexer` and `login_proxy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, get_args

from xmml.late_dataclass import dataclass
from xmml_executors.typed_json import read_word


@dataclass(frozen=True)
class Talking:
    """The login proxy has begun, on this host."""

    word: ClassVar[str] = "talking"
    host: str


@dataclass(frozen=True)
class Alive:
    """The login proxy has renewed the leases.

    Attributes:
        lease: its number, as the launcher has given it.
        unwritten: the runs whose leases could not be renewed, and why.
    """

    word: ClassVar[str] = "alive"
    lease: str
    unwritten: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Taken:
    """An order of this number stands in the file of its agent."""

    word: ClassVar[str] = "taken"
    agent: str
    order: int


@dataclass(frozen=True)
class Told:
    """An agent has reported something.

    Attributes:
        next: where its next report begins [bytes].
        report: as the agent has written it.
    """

    word: ClassVar[str] = "told"
    agent: str
    next: int
    report: object


@dataclass(frozen=True)
class AgentGone:
    """An agent has exited without a word, or its node does not answer."""

    word: ClassVar[str] = "gone"
    agent: str
    why: str


@dataclass(frozen=True)
class OrderLost:
    """An order could not be written.

    Attributes:
        why: `None`: the folder of the agent is gone.
    """

    word: ClassVar[str] = "lost"
    agent: str
    file: str
    why: str | None = None


@dataclass(frozen=True)
class RelayAnswer:
    """A relay has answered a request."""

    word: ClassVar[str] = "answer"
    relay: int
    answer: Mapping[str, object]


@dataclass(frozen=True)
class RelayEnded:
    """A relay has ended; without a reason if it was told to."""

    word: ClassVar[str] = "relay ended"
    relay: int
    why: str


@dataclass(frozen=True)
class ProxyFailed:
    """The login proxy has failed."""

    word: ClassVar[str] = "proxy failed"
    why: str


AgentNews = Taken | Told | AgentGone | OrderLost
GatewayMessage = Talking | Alive | AgentNews | RelayAnswer | RelayEnded | ProxyFailed

_KINDS: dict[str, type] = {each.word: each for each in get_args(GatewayMessage)}


def gateway_message(what: object, source: str) -> GatewayMessage:
    """Return what a JSON value from a gateway says.

    Args:
        source: who has sent it, for errors.

    Raises:
        ProtocolError: it says nothing that a gateway sends.
    """
    message: GatewayMessage = read_word(_KINDS, what, source)
    return message
