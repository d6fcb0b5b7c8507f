"""What people ask a run that goes on, at its query socket: one JSON object on one line.

The member `ask` has the word of one of these classes, the other members are its fields:

    {"ask": "status"}
    {"ask": "change", "conduits": [3], "methods": ["tcp"]}
    {"ask": "tap", "ports": ["flow.velocity"], "select": "", "limit_bytes": 67108864}
    {"ask": "stop"}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, get_args

from xmml.late_dataclass import dataclass
from xmml_executors.protocol import details
from xmml_executors.typed_json import parsed, read_tagged_object


@dataclass(frozen=True)
class AskStatus:
    """How far the instances are, and how the conduits travel."""

    word: ClassVar[str] = "status"


@dataclass(frozen=True)
class AskChange:
    """Have conduits travel by other methods, in this order of preference; none: by any."""

    word: ClassVar[str] = "change"
    conduits: Sequence[int]
    methods: Sequence[str]


@dataclass(frozen=True)
class AskTap:
    """Let a program join that is shown what passes out ports.

    Attributes:
        ports: each `INSTANCE.PORT`, of all copies of an instance; `*` and `?` stand for any characters.
        select: which objects it is shown; empty: all.
        limit_bytes: how much is held for it at each port.
    """

    word: ClassVar[str] = "tap"
    ports: Sequence[str]
    select: str
    limit_bytes: int


@dataclass(frozen=True)
class AskStop:
    """Stop the run."""

    word: ClassVar[str] = "stop"


Query = AskStatus | AskChange | AskTap | AskStop

_KINDS: dict[str, type] = {each.word: each for each in get_args(Query)}


def query_object(query: Query) -> dict[str, Any]:
    """Return a query as the JSON object that says it."""
    return {"ask": query.word, **details(query)}


def read_query(line: bytes) -> Query:
    """Return the query that a line says.

    Raises:
        ProtocolError: it says none.
    """
    source = "a client of the query socket"
    query: Query = read_tagged_object(_KINDS, parsed(line, source), source, tag="ask")
    return query
