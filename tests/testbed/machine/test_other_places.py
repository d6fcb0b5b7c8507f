"""Instances and agents in another network namespace, or of another user, on this host."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents_at_a_site import Site, connections_to
from compiled import compiled
from coupled import Ended, Program, Run
from needs import needs, needs_root
from waiting import LIMIT_S, wait_until
from wan.machine import network_of
from wan.soak import LONG

BINDINGS = Path(__file__).parents[2] / "bindings"
NOBODY = 65534
STEPS = 20
#: From the start of the two programs until the receiver has all and has left [s]. A method that leads nowhere is
#: refused at once. One that is tried again and again is given up after 30 s (CONNECT_LIMIT in
#: native/core/src/runtime/link.rs). On a quiet machine all takes less than a second.
OVER_WITHIN_S = 1.0 if LONG else 30.0
#: The ends of the cable between the two networks.
ADDRESSES = ("10.98.0.1", "10.98.0.2")

pytestmark = needs_root


def sender() -> list[str | Path]:
    return [compiled(BINDINGS / "native_c/partner.c", static=True), "sends_the_time"]


def receiver() -> list[str | Path]:
    return [compiled(BINDINGS / "native_cpp/partner.cpp", static=True), "only_receives"]


def run_of(folder: Path, receives: list[str | Path]) -> Run:
    programs = {"a": Program({"out": "Oi"}, sender(), STEPS), "b": Program({"in": "S"}, receives, STEPS)}
    return Run(folder, programs, "a.out -> b.in")


def check(run: Run, ended: dict[str, Ended], word: str, record: Callable[[str, object], None]) -> None:
    """All went by tcp, and the word is in the reasons why it did not go through shared memory or a Unix socket."""
    for name, end in ended.items():
        assert end.status == 0, f"{name}: {end.errors}"
    chosen: dict[str, Any] = run.told("conduits", "a")[-1]
    assert chosen["method"] == "tcp"
    for method in ("shm", "unix"):
        assert word in chosen["refused"][method], chosen
    (left,) = run.told("left", "b")
    assert left["conduits"][0]["received"] == STEPS
    record("over_s", left["after_s"])
    assert left["after_s"] < OVER_WITHIN_S


@pytest.fixture
def two_networks() -> Iterator[tuple[int, int]]:
    """Two network namespaces with a cable between them, as processes that hold them."""
    holders = []
    try:
        for _ in ADDRESSES:
            hold = ["unshare", "--net", "sh", "-c", "echo; exec sleep 3600"]
            holders.append(subprocess.Popen(hold, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            if not holders[-1].stdout.readline():
                pytest.skip(f"no network namespace can be made: {holders[-1].communicate()[1]}")
        pids = holders[0].pid, holders[1].pid
        with network_of(pids[0]):
            ip("link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(pids[1]))
        for pid, address in zip(pids, ADDRESSES, strict=True):
            with network_of(pid):
                ip("link", "set", "lo", "up")
                ip("addr", "add", f"{address}/24", "dev", "cable")
                ip("link", "set", "cable", "up")
        yield pids
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def ip(*words: str) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    subprocess.run(["ip", *words], check=True, env={**os.environ, "PATH": path})


@needs("ip")
def test_a_node_that_vanishes_while_an_order_is_on_its_way_is_soon_missed(
    tmp_path: Path, two_networks: tuple[int, int]
) -> None:
    login, node = two_networks
    with contextlib.closing(Site(tmp_path / "run")) as site:
        with network_of(node):
            site.job("m.1/0")
        port = site.await_report("m.1/0", "ready")["port"]
        with network_of(login):
            talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert talker.stdin is not None
        assert talker.stdout is not None

        def say(what: dict[str, Any]) -> None:
            talker.stdin.write(json.dumps(what).encode() + b"\n")

        def heard() -> dict[str, Any]:
            ready, _, _ = select.select([talker.stdout], [], [], LIMIT_S)
            assert ready, "nothing was said"
            return json.loads(talker.stdout.readline())

        assert heard()["is"] == "talking"
        say({"watch": {"m.1/0": [ADDRESSES[1], port]}})
        with network_of(login):
            wait_until(lambda: connections_to(port), "nobody has connected")
        with network_of(node):
            ip("link", "set", "cable", "down")
        say({"to": "m.1/0", "order": {"n": 1, "do": "hold", "s": 1000}})
        assert heard() == {"is": "taken", "agent": "m.1/0", "order": 1}
        # Who only waits for retransmissions misses it after a quarter of an hour.
        assert heard() == {"is": "gone", "agent": "m.1/0", "why": "its node does not answer"}


@needs("ip")
def test_an_instance_in_another_network_namespace_is_soon_reached_by_tcp(
    tmp_path: Path, two_networks: tuple[int, int], record_property: Callable[[str, object], None]
) -> None:
    here, there = two_networks
    run = run_of(tmp_path, ["nsenter", f"--net=/proc/{there}/ns/net", *receiver()])
    with network_of(here):
        ended = run.carry_out(LIMIT_S, env={"XMML_LISTEN": "0.0.0.0:0"}, listen=f"{ADDRESSES[0]}:0")
    check(run, ended, "namespaces", record_property)


def test_an_instance_of_another_user_is_soon_reached_by_tcp(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with tempfile.TemporaryDirectory(prefix="xmml-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = shutil.copy(receiver()[0], folder)
        secret = folder / "secret"
        secret.touch(mode=0o600)
        os.chown(secret, NOBODY, NOBODY)
        identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        as_nobody = ["env", f"XMML_SECRET_FILE={secret}", "setpriv", *identity, program, *receiver()[1:]]
        run = run_of(tmp_path, [*as_nobody])
        secret.write_text(run.secret.hex())
        check(run, run.carry_out(LIMIT_S, listen="127.0.0.1:0"), "user", record_property)
