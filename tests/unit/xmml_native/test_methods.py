"""Asking how conduits travel, and having them travel otherwise, from Python."""

from __future__ import annotations

import socket
from typing import Any

import pytest

SENDER = """
from xmml_native import Instance
with Instance() as me:
    for value in range(20):
        if value == 7:
            me.set_methods("out", ["tcp", "unix"])
            (row,) = me.methods("out")
            assert row["chosen"] == "tcp", row
            assert row["messages"] == 7 and row["bytes"] >= 7 * 56, row
            assert "may only use" in row["refused"]["shm"], row
            assert row["slower"] == ["unix"], row
        if value == 12:
            me.set_methods("out", [])
            assert me.methods("out")[0]["chosen"] == "shm", me.methods("out")
        me.send("out", value)
"""
RECEIVER = """
from xmml_native import Instance
with Instance() as me:
    for value in range(20):
        assert me.receive("in").data == value
    (row,) = me.methods("in")
    assert row["messages"] == 20 and row["latency_s"] is None, row
"""
REFUSED = """
from xmml_native import Instance
from xmml_native.errors import Error
with Instance() as me:
    try:
        me.set_methods("out", ["tpc"])
    except Error as error:
        assert "did you mean tcp?" in str(error), error
    else:
        raise SystemExit("tpc was taken for a method")
    for value in range(20):
        me.send("out", value)
"""


@pytest.mark.parametrize("sender", [SENDER, REFUSED], ids=["changes", "is refused"])
def test_a_program_sees_and_changes_how_its_messages_travel(run: Any, sender: str) -> None:
    run.couple_two()
    run.run_two(sender, RECEIVER)


TIMED = """
import time
from xmml_native import Instance
with Instance() as me:
    began = time.monotonic()
    for value in range(200):
        me.send("out", value)  # waits for room again and again, and so hears of receipts
    (row,) = me.methods("out")
    assert 0 < row["latency_s"] <= time.monotonic() - began, row
    assert row["messages"] == 200 and row["bytes_per_s"] == row["messages_per_s"] == 0, row
"""
TAKING = """
from xmml_native import Instance
with Instance() as me:
    assert [me.receive("in").data for value in range(200)] == list(range(200))
    (row,) = me.methods("in")
    assert row["latency_s"] is None, row
"""


@pytest.mark.parametrize("method", ["shm", "unix", "tcp"])
def test_a_sender_knows_how_long_a_message_takes(run: Any, method: str) -> None:
    run.couple_two(methods=[method])
    run.run_two(TIMED, TAKING)


def test_a_method_in_the_environment_that_does_not_exist_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.declare("a", {"out": "Oi"}, check_order=False)
    run.define()
    monkeypatch.setenv("XMML_METHODS", "unx,tcp")
    run.start("a", "from xmml_native import Instance\nInstance()")
    done = run.finish()["a"]
    assert done.returncode != 0
    assert 'XMML_METHODS: there is no method "unx": did you mean unix?' in done.stderr


JOINS = "from xmml_native import Instance\nInstance()"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nonsense", "cannot find the address nonsense"),
        ("0.0.0.0", "cannot find the address 0.0.0.0"),
        ("127.0.0.1:port", "cannot find the address 127.0.0.1:port"),
        ("192.0.2.1:0", "Cannot assign requested address"),
        ("towards:", "cannot find the address :9"),
        ("device:nosuch0", "there is no such network device with an address"),
    ],
)
def test_a_place_to_listen_that_is_none_is_refused_with_what_was_expected(
    run: Any, monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    run.couple_two()
    monkeypatch.setenv("XMML_LISTEN", place)
    run.start("b", JOINS)
    done = run.finish()["b"]
    assert done.returncode != 0
    assert f'cannot listen for other instances by tcp: XMML_LISTEN is "{place}": {why}' in done.stderr
    assert "expected HOST:PORT with an address of this machine and port 0 for any that is free" in done.stderr


def test_a_port_to_listen_at_that_is_taken_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run.couple_two()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("XMML_LISTEN", place)
        run.start("b", JOINS)
        done = run.finish()["b"]
    assert done.returncode != 0
    assert f'XMML_LISTEN is "{place}": Address already in use' in done.stderr


@pytest.mark.parametrize("place", ["", "0.0.0.0:0", "towards:127.0.0.1", "device:lo"])
def test_messages_travel_by_tcp_wherever_instances_listen(
    run: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    run.couple_two(methods=["tcp"])
    monkeypatch.setenv("XMML_LISTEN", place)
    run.run_two(TIMED, TAKING)
