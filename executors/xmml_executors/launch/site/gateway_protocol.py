"""What the gateway of a site sends to the launcher: one JSON object a line.

The member `is` has the word of one of these classes, the other members are its fields. The gateway is one process of
the program `mto`. Its threads are the login proxy, which exchanges files with the agents, and the relays of the site
(the Rust modules `login_proxy` and `multiplexer` write these lines).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, get_args

from xmml.late_dataclass import dataclass
from xmml_executors.typed_json import read_tagged_object


@dataclass(frozen=True)
class ProxyStarted:
    """The login proxy has begun, on `host`."""

    word: ClassVar[str] = "talking"
    host: str


@dataclass(frozen=True)
class LeasesRenewed:
    """The login proxy has renewed the leases.

    Attributes:
        lease: what the launcher has called this renewal.
        unwritten: the runs whose leases could not be renewed, and why.
    """

    word: ClassVar[str] = "alive"
    lease: str
    unwritten: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OrderWritten:
    """The order with the number `order` stands in the file of its agent."""

    word: ClassVar[str] = "taken"
    agent: str
    order: int


@dataclass(frozen=True)
class AgentReported:
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
class AgentExited:
    """An agent has exited without a last report, or its node does not answer."""

    word: ClassVar[str] = "gone"
    agent: str
    why: str


@dataclass(frozen=True)
class OrderNotWritten:
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
    """A relay has ended.

    Attributes:
        why: empty if the launcher has stopped it.
    """

    word: ClassVar[str] = "relay ended"
    relay: int
    why: str


@dataclass(frozen=True)
class ProxyFailed:
    """The login proxy has failed."""

    word: ClassVar[str] = "proxy failed"
    why: str


AgentNews = OrderWritten | AgentReported | AgentExited | OrderNotWritten
GatewayMessage = ProxyStarted | LeasesRenewed | AgentNews | RelayAnswer | RelayEnded | ProxyFailed

_KINDS: dict[str, type] = {each.word: each for each in get_args(GatewayMessage)}


def gateway_message(what: object, source: str) -> GatewayMessage:
    """Return what a JSON value from a gateway says.

    Args:
        source: who has sent it, for errors.

    Raises:
        ProtocolError: it says nothing that a gateway sends.
    """
    message: GatewayMessage = read_tagged_object(_KINDS, what, source)
    return message
