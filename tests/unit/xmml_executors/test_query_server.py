"""What those get who ask about a run that goes on, or want something of it."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from xmml_executors.conduits import Conduits
from xmml_executors.coordinator_events import Away, CoordinatorEvent, Figures, Left, Lost, MethodChanged, MethodReport
from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.open_folder import OpenFolder
from xmml_executors.queries import AskTap
from xmml_executors.query_server import CHANGE_WITHIN_S, FIGURES_WITHIN_S, LONGEST_QUESTION_BYTES, QueryServer
from xmml_executors.run_folder import DOOR
from xmml_planner import ConduitSpec, Plan
from xmml_planner.execution_plan import PoolSpec

MakePlan = Callable[..., Plan]

STATUS = {"ask": "status"}
TAP = {"ask": "tap", "ports": ["a.o"], "select": "", "limit_bytes": 1000}


class Coordinator:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.enquiries: list[int] = []
        self.changes: list[tuple[int, list[str]]] = []

    def enquire(self, number: int) -> None:
        self.enquiries.append(number)

    def change(self, conduit: int, methods: list[str]) -> int:
        self.changes.append((conduit, methods))
        return 100 + len(self.changes)


class Run:
    """A run of `a` and `b`, which have joined, and its query server."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.folder = folder
        self.opened = OpenFolder(folder)
        self.clients: list[Client] = []
        self.selector = selectors.DefaultSelector()
        self.conduits = Conduits(plan)
        self.records = {name: InstanceRecord(name, Lifecycle.RUNNING) for name in ("a", "b")}
        self.stopped: list[None] = []
        self.taps: list[AskTap] = []
        self.coordinator = Coordinator()
        self.server = QueryServer(
            self.opened,
            self.conduits,
            self.records,
            self.selector,
            lambda: self.stopped.append(None),
            self.add_tap,
        )

    def open(self) -> None:
        """Let the run begin."""
        self.server.open(cast("Any", self.coordinator))

    def add_tap(self, query: AskTap) -> Mapping[str, Any]:
        if "nothing.o" in query.ports:
            raise RuntimeError("no out port is called that")
        self.taps.append(query)
        return {"tap": "tap-1"}

    def turn(self) -> None:
        """Deal with what has come."""
        for _ in range(3):  # a connection, a question, its end
            for key, _ in self.selector.select(0.05):
                key.data()

    def connect(self) -> Client:
        """Have somebody at the door."""
        self.clients.append(Client(self.folder))
        return self.clients[-1]

    def close(self) -> None:
        """Leave no descriptor open, which other tests count."""
        self.server.close()
        self.selector.close()
        self.opened.close()
        for client in self.clients:
            client.socket.close()

    def ask(self, question: object) -> Client:
        """Ask in a connection of its own."""
        client = self.connect()
        client.say(question if isinstance(question, bytes) else json.dumps(question).encode() + b"\n")
        self.turn()
        return client


class Client:
    """Somebody who asks."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(0.05)
        self.socket.connect(f"\0{(folder / DOOR).read_text()}")

    def say(self, text: bytes) -> None:
        self.socket.sendall(text)

    @property
    def answer(self) -> Any:
        """The answer; `None`: there is none so far, empty: there will be none."""
        text = b""
        try:
            while chunk := self.socket.recv(65536):
                text += chunk
        except TimeoutError:
            return None
        except ConnectionResetError:
            return {}
        return json.loads(text) if text else {}


@pytest.fixture
def run(make_plan: MakePlan, tmp_path: Path) -> Iterator[Run]:
    made = Run(make_plan("a", "b", couplings=[("a", "b")]), tmp_path)
    yield made
    made.close()


def figures(instance: str, number: int, messages: int = 7) -> Figures:
    report = MethodReport(0, "a.o -> b.i", "shm", False, {}, (), messages, 8 * messages, 0.0, 0.0, None)
    sends = instance == "a"
    return Figures(instance, number, (report,) if sends else (), () if sends else (report,))


def test_before_the_instances_have_begun_the_state_is_told_without_figures(run: Run) -> None:
    answer = run.ask(STATUS).answer
    assert set(answer["instances"]) == {"a", "b"}
    assert [row["sent"] for row in answer["conduits"]] == [None]


def test_the_state_is_told_when_all_instances_have_given_their_figures(run: Run) -> None:
    run.open()
    asker = run.ask(STATUS)
    run.server.on_native(figures("a", 1))
    assert asker.answer is None
    run.server.on_native(figures("b", 1, 5))
    (row,) = asker.answer["conduits"]
    assert (row["method"], row["sent"], row["received"]) == ("shm", 7, 5)


def test_figures_of_another_question_are_not_taken_for_the_answer(run: Run) -> None:
    run.open()
    first, second = run.ask(STATUS), run.ask(STATUS)
    assert run.coordinator.enquiries == [1, 2]
    for name in ("a", "b"):
        run.server.on_native(figures(name, 2))
    assert first.answer is None
    assert second.answer["conduits"][0]["sent"] == 7


@pytest.mark.parametrize("event", [Left("b", 1, (), 0.0), Lost("b"), Away("b", 60.0)], ids=lambda each: each.word)
def test_an_instance_that_ends_or_is_away_is_not_waited_for(run: Run, event: CoordinatorEvent) -> None:
    run.open()
    asker = run.ask(STATUS)
    run.server.on_native(figures("a", 1))
    run.server.on_native(event)
    (row,) = asker.answer["conduits"]
    assert (row["sent"], row["received"]) == (7, None)


@pytest.mark.parametrize("kind", ["away", "dead", "not joined"])
def test_an_instance_that_cannot_answer_is_not_waited_for(run: Run, kind: str) -> None:
    run.open()
    record = run.records["b"]
    match kind:
        case "away":
            record.away_since = 1.0
        case "dead":
            record.died_at = 1.0
        case _:
            record.state = Lifecycle.STARTED
    asker = run.ask(STATUS)
    run.server.on_native(figures("a", 1))
    assert asker.answer["conduits"][0]["sent"] == 7


def test_who_is_late_with_figures_is_left_out(run: Run) -> None:
    run.open()
    asker = run.ask(STATUS)
    run.server.on_native(figures("a", 1))
    assert run.server.deadline is not None
    assert 0 < run.server.deadline - time.monotonic() <= FIGURES_WITHIN_S
    run.server.on_time(run.server.deadline)
    assert asker.answer["conduits"][0]["received"] is None
    assert run.server.deadline is None


def test_a_tap_has_its_conduit_in_the_state_as_long_as_it_is_there(run: Run) -> None:
    run.conduits.open(
        ConduitSpec(1 << 30, "a.o -> tap-1.objects", "a", "o", "tap-1", "objects", 0, 9, pool=PoolSpec("", is_tap=True))
    )
    assert [row["name"] for row in run.ask(STATUS).answer["conduits"]][1:] == ["a.o -> tap-1.objects"]
    run.conduits.forget_tap("tap-1")
    assert len(run.ask(STATUS).answer["conduits"]) == 1


def test_a_change_of_methods_is_answered_when_each_conduit_has_told(run: Run) -> None:
    run.open()
    asker = run.ask({"ask": "change", "conduits": [0, 1], "methods": ["tcp"]})
    assert run.coordinator.changes == [(0, ["tcp"]), (1, ["tcp"])]
    run.server.on_native(MethodChanged("a", 101, 0, "tcp", None))
    run.server.on_native(MethodChanged("a", 999, 1, "tcp", None))
    assert asker.answer is None
    assert run.server.deadline is not None
    assert run.server.deadline - time.monotonic() > CHANGE_WITHIN_S / 2
    run.server.on_time(run.server.deadline)
    assert asker.answer["changes"] == [
        {"conduit": 0, "method": "tcp", "problem": None},
        {"conduit": 1, "method": None, "problem": "nobody answered in time"},
    ]


def test_nothing_is_changed_before_the_run_has_begun(run: Run) -> None:
    answer = run.ask({"ask": "change", "conduits": [0], "methods": ["tcp"]}).answer
    assert "the run has not begun" in answer["error"]


def test_a_tap_gets_what_it_joins_with_or_why_it_cannot(run: Run) -> None:
    assert run.ask(TAP).answer == {"tap": "tap-1"}
    assert run.taps == [AskTap(["a.o"], "", 1000)]
    assert run.ask({**TAP, "ports": ["nothing.o"]}).answer == {"error": "no out port is called that"}


def test_who_wants_the_run_to_stop_is_told_that_it_does(run: Run) -> None:
    assert run.ask({"ask": "stop"}).answer == {"stopping": True}
    assert run.stopped == [None]


@pytest.mark.parametrize(
    "question",
    [
        b"\n",
        b"7\n",
        b"\xff\n",
        b"[" * 100_000 + b"\n",
        {"ask": "dance"},
        {"ask": "status", "more": 1},
        {"ask": "change", "conduits": [1 << 63], "methods": []},
        {"ask": "tap", "ports": "a.o", "select": "", "limit_bytes": 1},
    ],
    ids=str,
)
def test_what_is_no_question_is_said_to_be_none(run: Run, question: object) -> None:
    run.open()
    assert run.ask(question).answer == {"error": "this question is not understood"}
    assert run.ask({"ask": "stop"}).answer == {"stopping": True}, "others are answered"


def test_a_question_that_does_not_end_is_cut_off(run: Run) -> None:
    client = run.connect()
    client.socket.setblocking(False)
    sent = 0
    while sent <= LONGEST_QUESTION_BYTES + (1 << 20):
        try:
            sent += client.socket.send(b" " * 65536)
        except BlockingIOError:
            run.turn()
        except (BrokenPipeError, ConnectionResetError):
            return
    pytest.fail("it listens to more than anybody asks")


def test_who_hangs_up_is_forgotten(run: Run) -> None:
    run.open()
    asker = run.ask(STATUS)
    asker.socket.close()
    run.turn()
    assert run.server.deadline is None


def answered(clients: Sequence[Client]) -> list[Any]:
    return [client.answer for client in clients]


def test_when_the_server_closes_nobody_waits_any_more_and_its_name_is_gone(run: Run) -> None:
    run.open()
    askers = [run.ask(STATUS), run.ask(STATUS)]
    run.server.close()
    assert answered(askers) == [{}, {}]
    assert not (run.folder / DOOR).exists()
