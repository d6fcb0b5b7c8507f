"""Answering people who ask about a run that goes on, or want something of it: `xmml status`, `xmml methods`,
`xmml tap`, `xmml record`, `xmml cancel`.

`xmml-run` listens on an abstract Unix socket whose name stands in `.questions` in the run's folder, a file that only
its owner can read; the kernel says who connects, and other users are turned away. A question is one line of JSON, and
so is the answer (see `xmml_executors.queries`).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from xmml_native import Coordinator

from xmml.late_dataclass import dataclass
from xmml_executors import coordinator_events as events
from xmml_executors.conduit_figures import ConduitFigures, merged
from xmml_executors.conduits import Conduits
from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.open_folder import OpenFolder
from xmml_executors.peers import is_ours
from xmml_executors.queries import AskChange, AskStatus, AskStop, AskTap, Query, read_query
from xmml_executors.run_folder import DOOR
from xmml_executors.typed_json import ProtocolError

#: How long instances may take to say how their conduits travel; whoever is late is left out.
FIGURES_WITHIN_S = 2.0
#: How long a change of methods may take.
CHANGE_WITHIN_S = 45.0
#: A longer question is none.
LONGEST_QUESTION_BYTES = 1 << 20
#: Connections that wait to be accepted (the kernel may allow fewer), and those accepted before anything else is done.
#: Every user of the machine can connect; others are turned away as soon as they are accepted.
BACKLOG = 1024
ACCEPTED_AT_ONCE = 64


@dataclass
class _QueryClient:
    """Somebody who waits for an answer."""

    connection: socket.socket
    question: bytes = b""
    query: Query | None = None
    number: int = 0
    awaited: dict[Any, Any] = field(default_factory=dict)
    figures: list[events.Figures] = field(default_factory=list)
    changes: dict[int, events.MethodChanged] = field(default_factory=dict)
    tap: Mapping[str, Any] = field(default_factory=dict)
    until: float = 0.0


class QueryServer:
    """The door at which people ask, and those who wait for an answer."""

    def __init__(
        self,
        folder: OpenFolder,
        conduits: Conduits,
        records: Mapping[str, InstanceRecord],
        selector: selectors.BaseSelector,
        stop: Callable[[], None],
        add_tap: Callable[[AskTap], Mapping[str, Any]],
    ) -> None:
        """Begin to listen.

        Args:
            stop: is called when somebody wants the run to end.
            add_tap: is called for a tap; returns the answer, or raises a `RuntimeError` that says why there is none.

        Raises:
            OSError: it cannot.
        """
        self._folder = folder
        self._conduits = conduits
        self._records = records
        self._selector = selector
        self._stop = stop
        self._add_tap = add_tap
        self._askers: list[_QueryClient] = []
        self._count = 0
        self._coordinator: Coordinator | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        name = f"xmml-questions-{os.urandom(12).hex()}"
        self._listener.bind(f"\0{name}")
        self._listener.listen(BACKLOG)
        folder.write(DOOR, name.encode(), 0o600)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def open(self, coordinator: Coordinator) -> None:
        """From now on there are instances to ask."""
        self._coordinator = coordinator

    @property
    def deadline(self) -> float | None:
        """When `on_time` wants to be called."""
        return min((asker.until for asker in self._askers if asker.query), default=None)

    def on_time(self, now: float) -> None:
        """Answer those who have waited long enough."""
        for asker in [each for each in self._askers if each.query and each.until <= now]:
            self._answer(asker)

    def on_native(self, event: events.CoordinatorEvent) -> None:
        """Something that may be a part of an answer."""
        for asker in list(self._askers):
            match event:
                case events.Figures() if isinstance(asker.query, AskStatus) and event.number == asker.number:
                    asker.figures.append(event)
                    asker.awaited.pop(event.instance, None)
                case events.MethodChanged() if isinstance(asker.query, AskChange) and event.change in asker.awaited:
                    asker.changes[event.change] = event
                    asker.awaited.pop(event.change)
                case events.Left() | events.Lost() | events.Away() if isinstance(asker.query, AskStatus):
                    asker.awaited.pop(event.instance, None)
            if asker.query and not asker.awaited:
                self._answer(asker)

    def close(self) -> None:
        """Stop listening; who still waits gets no answer."""
        for asker in list(self._askers):
            self._let_go(asker)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._listener)
        self._listener.close()
        self._folder.remove(DOOR)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        if not is_ours(connection):
            connection.close()
            return
        connection.setblocking(False)
        asker = _QueryClient(connection)
        self._askers.append(asker)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(asker))

    def _read(self, asker: _QueryClient) -> None:
        try:
            chunk = asker.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        asker.question += chunk
        if not chunk or len(asker.question) > LONGEST_QUESTION_BYTES:
            self._let_go(asker)
        elif asker.question.endswith(b"\n") and asker.query is None:
            self._begin(asker)

    def _begin(self, asker: _QueryClient) -> None:
        try:
            asker.query = read_query(asker.question)
            match asker.query:
                case AskStatus():
                    self._begin_status(asker)
                case AskChange(conduits, methods):
                    self._begin_change(asker, conduits, methods)
                case AskTap():
                    asker.tap = self._add_tap(asker.query)
                case AskStop():
                    self._stop()
        except (ProtocolError, ValueError, OverflowError):
            self._reply(asker, {"error": "this question is not understood"})
        except RuntimeError as error:
            self._reply(asker, {"error": str(error)})
        else:
            if not asker.awaited:
                self._answer(asker)

    def _begin_status(self, asker: _QueryClient) -> None:
        self._count += 1
        asker.number, asker.until = self._count, time.monotonic() + FIGURES_WITHIN_S
        if self._coordinator is not None:
            asker.awaited = {name: name for name, record in self._records.items() if can_answer(record)}
            self._coordinator.enquire(asker.number)

    def _begin_change(self, asker: _QueryClient, conduits: Sequence[int], methods: Sequence[str]) -> None:
        if self._coordinator is None:
            raise RuntimeError("the run has not begun: its programs are being built")
        asker.until = time.monotonic() + CHANGE_WITHIN_S
        asker.awaited = {self._coordinator.change(conduit, list(methods)): conduit for conduit in conduits}

    def _answer(self, asker: _QueryClient) -> None:
        if isinstance(asker.query, AskChange):
            late = [
                {"conduit": conduit, "method": None, "problem": "nobody answered in time"}
                for conduit in asker.awaited.values()
            ]
            given = [
                {"conduit": each.conduit, "method": each.method, "problem": each.problem}
                for each in asker.changes.values()
            ]
            self._reply(asker, {"changes": [*given, *late]})
            return
        if isinstance(asker.query, AskTap):
            self._reply(asker, asker.tap)
            return
        if isinstance(asker.query, AskStop):
            self._reply(asker, {"stopping": True})
            return
        instances = {name: status_of(record) for name, record in self._records.items()}
        self._reply(
            asker, {"instances": instances, "conduits": rows(merged(self._conduits.by_id.values(), asker.figures))}
        )

    def _reply(self, asker: _QueryClient, answer: Mapping[str, Any]) -> None:
        asker.connection.settimeout(1.0)
        with contextlib.suppress(OSError):
            asker.connection.sendall(json.dumps(answer).encode() + b"\n")
        self._let_go(asker)

    def _let_go(self, asker: _QueryClient) -> None:
        if asker in self._askers:
            self._askers.remove(asker)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(asker.connection)
            asker.connection.close()


def rows(figures: Iterable[ConduitFigures]) -> list[dict[str, Any]]:
    """Return the figures as plain values."""
    return [each.as_json() for each in figures]


def can_answer(record: InstanceRecord) -> bool:
    """Whether an instance will answer a question soon."""
    return record.state is Lifecycle.RUNNING and record.away_since is None and record.died_at is None


def status_of(record: InstanceRecord) -> dict[str, Any]:
    """Return what is known of an instance that runs."""
    return {
        **record.as_json(),
        "run": record.run,
        "iteration": record.iteration,
        "time": record.time,
        "waits_for": [each.conduit for each in record.waits_for],
        "is_away": record.away_since is not None,
    }
