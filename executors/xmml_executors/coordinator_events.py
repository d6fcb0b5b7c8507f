"""What the coordinator of a run reports: its events, read once, where they are taken.

The native coordinator gives each event as a dictionary (native/python/src/coordinator.rs). Its member `event` has the
word of one of these classes, the other members are its fields. Whatever is not an event as it stands here is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, get_args

from xmml_planner import ConduitSpec

from xmml.late_dataclass import dataclass
from xmml_executors.deadlock import WaitKind
from xmml_executors.typed_json import read_tagged_object

#: Who has reported an event, for errors.
SOURCE = "the coordinator"


@dataclass(frozen=True)
class Joined:
    """An instance has registered.

    Attributes:
        version: of the library that it uses.
    """

    word: ClassVar[str] = "joined"
    instance: str
    pid: int
    host: str
    language: str
    version: str


@dataclass(frozen=True)
class Progress:
    """How far an instance is; at most four times a second, and only when something has changed.

    Attributes:
        run, iteration, time: where it is in the submodel execution loop; runs count from 1, `time` is model time [s].
    """

    word: ClassVar[str] = "progress"
    instance: str
    run: int
    iteration: int
    time: float
    messages_sent: int
    bytes_sent: int
    messages_received: int
    bytes_received: int


@dataclass(frozen=True)
class Wait:
    """One conduit that an instance waits for, and what it waits for there (see `xmml_executors.deadlock`)."""

    conduit: int
    kind: WaitKind


@dataclass(frozen=True)
class Waiting:
    """An instance has been waiting for longer than a moment.

    Attributes:
        epoch: names this wait; a later wait has a larger one.
        waits: what it waits for: all of them, or any one of them.
        is_any: any one of them lets it go on.
        is_timed: it goes on after some time, whatever happens.
        sent, received: its messages so far, by conduit.
    """

    word: ClassVar[str] = "waiting"
    instance: str
    epoch: int
    waits: tuple[Wait, ...]
    is_any: bool
    is_timed: bool
    sent: Mapping[int, int]
    received: Mapping[int, int]


@dataclass(frozen=True)
class Resumed:
    """An instance that waited goes on."""

    word: ClassVar[str] = "resumed"
    instance: str
    epoch: int


@dataclass(frozen=True)
class Confirmed:
    """An instance that was asked says whether it is still in a wait."""

    word: ClassVar[str] = "confirmed"
    instance: str
    epoch: int
    still: bool


@dataclass(frozen=True)
class Warned:
    """An instance has something to tell people."""

    word: ClassVar[str] = "warning"
    instance: str
    text: str


@dataclass(frozen=True)
class Failed:
    """An instance says that it failed, and why; the text may be empty."""

    word: ClassVar[str] = "failed"
    instance: str
    text: str


@dataclass(frozen=True)
class ConduitTotals:
    """What an instance has sent and received on a conduit in all.

    Attributes:
        bytes: of the messages sent, or, at the receiver, of those received.
        dropped: messages that nobody received.
        replaced: messages that newer ones have replaced at this end, where the receiver sees the newest only.
    """

    conduit: int
    sent: int
    received: int
    bytes: int
    dropped: int
    replaced: int = 0


@dataclass(frozen=True)
class Left:
    """An instance has ended normally.

    Attributes:
        runs: completed passes.
        waited_s: how long its calls waited for others, all together.
    """

    word: ClassVar[str] = "left"
    instance: str
    runs: int
    conduits: tuple[ConduitTotals, ...]
    waited_s: float


@dataclass(frozen=True)
class Away:
    """The connection of an instance broke; within `limit_s` seconds it may come back."""

    word: ClassVar[str] = "away"
    instance: str
    limit_s: float


@dataclass(frozen=True)
class Back:
    """An instance that was away has come back; what it has said meanwhile comes now."""

    word: ClassVar[str] = "back"
    instance: str


@dataclass(frozen=True)
class Lost:
    """The connection of an instance closed without its leaving, and it does not come back."""

    word: ClassVar[str] = "lost"
    instance: str


@dataclass(frozen=True)
class Refused:
    """A peer was turned away; reported once per source."""

    word: ClassVar[str] = "refused"
    peer: str
    reason: str


@dataclass(frozen=True)
class MethodChosen:
    """A sender has chosen the method of conduits to one receiver.

    Attributes:
        refused: methods that it passed over, each with the reason.
    """

    word: ClassVar[str] = "conduits"
    instance: str
    conduits: tuple[int, ...]
    method: str
    protected: bool
    refused: Mapping[str, str]


@dataclass(frozen=True)
class MethodReport:
    """How a conduit travels, and what has passed it at one of its ends.

    Attributes:
        name: of the conduit, for people.
        chosen: the method in use; `None`: the other end is not known yet, or, at a receiver, the sender has not
            connected.
        refused: methods that were considered first, each with the reason why it was not taken.
        slower: methods that could have been taken, had there not been a faster one; only at the sender.
        messages: sent, or taken by the receiving program.
        messages_per_s, bytes_per_s: since somebody asked before; 0 the first time.
        latency_s: from the sending of a message until the sender knew that it was taken; `None`: not known.
        replaced: messages that newer ones have replaced at this end, where the receiver sees the newest only.
        dropped: messages dropped at this end because the receiver had left, or was too slow and may lose some.
        waiting: objects of a pool that wait at this end until a reader has room; those of a queue at the conduit of its
            first reader.
        held_bytes: of what was sent, or waits, at this end and is not known to have been taken.
    """

    conduit: int
    name: str
    chosen: str | None
    protected: bool
    refused: Mapping[str, str]
    slower: tuple[str, ...]
    messages: int
    bytes: int
    messages_per_s: float
    bytes_per_s: float
    latency_s: float | None
    replaced: int = 0
    dropped: int = 0
    waiting: int = 0
    held_bytes: int = 0


@dataclass(frozen=True)
class Figures:
    """The answer of an instance to the enquiry with this number: its conduits, by which of their ends it has."""

    word: ClassVar[str] = "figures"
    instance: str
    number: int
    sending: tuple[MethodReport, ...]
    receiving: tuple[MethodReport, ...]


@dataclass(frozen=True)
class MethodChanged:
    """What became of the change of methods with the number `change`.

    Attributes:
        method: in use now; `None`: it is chosen when the receiver joins.
        problem: why it is not another.
    """

    word: ClassVar[str] = "changed"
    instance: str
    change: int
    conduit: int
    method: str | None
    problem: str | None


@dataclass(frozen=True)
class GivenAgain:
    """A writer has given objects of a reader that died to others.

    Attributes:
        deadly: the number (`sys.seq`) of one that too many have died with.
    """

    word: ClassVar[str] = "given_again"
    instance: str
    conduit: int
    objects: int
    deadly: int | None


@dataclass(frozen=True)
class Opened:
    """An instance has opened a handle, or joined as a tap: there is a conduit more."""

    word: ClassVar[str] = "opened"
    instance: str
    conduit: ConduitSpec


InstanceEvent = (
    Joined
    | Progress
    | Waiting
    | Resumed
    | Confirmed
    | Warned
    | Failed
    | Left
    | Away
    | Back
    | Lost
    | MethodChosen
    | Figures
    | MethodChanged
    | GivenAgain
    | Opened
)
CoordinatorEvent = InstanceEvent | Refused

_KINDS: dict[str, type] = {each.word: each for each in get_args(CoordinatorEvent)}


def instance_of(what: object) -> str | None:
    """Return which instance a value from the coordinator is about, whether or not the rest of it can be read."""
    name = what.get("instance") if isinstance(what, Mapping) else None
    return name if isinstance(name, str) else None


def read_event(what: object, source: str = SOURCE) -> CoordinatorEvent:
    """Return the event that a value from the coordinator says.

    Args:
        what: the value.
        source: who has reported the event, for errors.

    Raises:
        ProtocolError: the value says no event.
    """
    event: CoordinatorEvent = read_tagged_object(_KINDS, what, source, tag="event")
    return event
