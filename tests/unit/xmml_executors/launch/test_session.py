"""The channel to the jobs of a site: nothing is lost or doubled when its connection breaks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, complete_lines, until
from xmml_executors.launch.site import session
from xmml_executors.launch.site.session import (
    STALLED_AFTER,
    GatewayConnection,
    Gone,
    RelayChannel,
    SiteSession,
    SiteTimedOut,
)
from xmml_executors.outcome import SiteError
from xmml_executors.protocol import AgentReport, Go, Output, Over, Signal, StepFailed, details
from xmml_executors.typed_json import ProtocolError
from xmml_native import mto
from xmml_sites.program import command_at
from xmml_sites.ssh import ConnectionLost
from xmml_sites.ssh.local import LocalTransport
from xmml_sites.ssh.processes import OwnProgram


class Breaking(LocalTransport):
    """A way to a site that is this machine, whose connection can be cut."""

    def __init__(self) -> None:
        super().__init__("here")
        self.process: OwnProgram | None = None
        self.attempts: list[float] = []
        self.started = 0
        self.is_down = False
        self.hangs = False

    async def start_program(self, command: str, *, lease_s: float = 30.0) -> OwnProgram:
        self.attempts.append(time.monotonic())
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_down:
            raise ConnectionLost("here", "it is down")
        self.started += 1
        self.process = await super().start_program(command, lease_s=lease_s)
        return self.process

    async def cut(self) -> None:
        assert self.process is not None
        await self.process.kill()


def folder_of_run(folder: Path) -> Path:
    (folder / "jobs" / "m.1").mkdir(parents=True)
    (folder / "mto").symlink_to(mto.PROGRAM)
    return folder


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return folder_of_run(tmp_path / "run")


class Kept:
    """A session that is kept while the block lasts; `beside`: another one, whose connection it shares."""

    def __init__(
        self, run_folder: Path, beside: Kept | None = None, transport: Breaking | None = None, **options: Any
    ) -> None:
        self.folder = run_folder / "jobs" / "m.1"
        self.transport = beside.transport if beside is not None else transport or Breaking()
        self.heard: list[AgentReport | Gone] = []
        self.happened = asyncio.Event()
        self.gateway = beside.gateway if beside is not None else GatewayConnection("here", self.transport, **options)
        command = f"exec {command_at(str(run_folder))}"
        self.told: list[str] = []
        self.channel = SiteSession(self.gateway, str(run_folder), command, self.on_report, self.on_told)

    def on_told(self, text: str, site: str) -> None:
        self.told.append(f"{site}: {text}")

    def on_report(self, job: str, report: AgentReport | Gone) -> None:
        assert job == "m.1"
        self.heard.append(report)
        self.happened.set()

    async def __aenter__(self) -> Kept:
        self.keeping = asyncio.create_task(self.channel.keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.keeping.cancel()
        await asyncio.gather(self.keeping, return_exceptions=True)
        await self.transport.close()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(LIMIT_S):
            while len(self.heard) < count:
                self.happened.clear()
                await self.happened.wait()

    async def orders(self, count: int) -> list[dict[str, Any]]:
        file = self.folder / "orders"
        await until(
            lambda: len(complete_lines(file)) >= count and not self.channel.has_orders(), "orders do not get there"
        )
        return complete_lines(file)

    def report(self, report: AgentReport) -> None:
        self.write(json.dumps({"is": report.word, **details(report)}))

    def write(self, line: str) -> None:
        with (self.folder / "reports").open("a") as file:
            file.write(line + "\n")


def test_reports_and_orders_pass(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            kept.report(Over())
            await kept.until(1)
            kept.channel.send_order("m.1", Go())
            assert await kept.orders(1) == [{"n": 1, "do": "go"}]

    asyncio.run(go())


def test_a_cut_connection_neither_loses_nor_doubles_anything(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            for number in range(6):
                kept.report(StepFailed(number))
                kept.channel.send_order("m.1", Signal("flow", number))
                await kept.until(number + 1)
                if number % 2:
                    await kept.transport.cut()
            orders = await kept.orders(6)
            assert kept.heard == [StepFailed(number) for number in range(6)]
            # An order whose receipt was lost comes twice under one number; agents obey the first.
            assert sorted({order["n"] for order in orders}) == [1, 2, 3, 4, 5, 6]
            assert kept.transport.started >= 3

    asyncio.run(go())


def test_a_report_that_comes_in_pieces_is_put_together(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            report = Output("flow", "stdout", "xé" * 100_000)
            kept.write(json.dumps({"is": report.word, **details(report)}, ensure_ascii=False))
            await kept.until(1)
            assert kept.heard == [report]

    asyncio.run(go())


def test_a_report_that_nobody_understands_ends_the_session_and_names_its_agent(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            kept.write('{"is": "readdy"}')
            with pytest.raises(ProtocolError, match=r"here, agent m\.1 .*unknown message 'readdy'"):
                await asyncio.wait_for(kept.keeping, LIMIT_S)

    asyncio.run(go())


def test_what_is_no_report_and_does_not_end_is_shown_with_where_it_may_come_from(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LONGEST_REPORT_CHARACTERS", 100)
    (run_folder / "mto").unlink()
    (run_folder / "mto").write_text(f"#!/bin/sh\necho '[{'x' * 200}'\nexec cat >/dev/null\n")
    (run_folder / "mto").chmod(0o755)

    async def go() -> None:
        async with Kept(run_folder) as kept:
            with pytest.raises(
                SiteError, match=r"site here: .* 201 characters that are not JSON, beginning with '\[xxx.*: something"
            ):
                await asyncio.wait_for(kept.keeping, LIMIT_S)

    asyncio.run(go())


def test_a_site_that_stays_silent_is_given_up(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder, lease_s=0.5) as kept:
            kept.transport.is_down = True
            with pytest.raises(SiteTimedOut, match=r"site here has not been reached for .*it is down"):
                await asyncio.wait_for(kept.keeping, LIMIT_S)

    asyncio.run(go())


def test_a_site_that_does_not_even_refuse_is_given_up_in_time(run_folder: Path) -> None:
    async def go() -> None:
        async with Kept(run_folder, lease_s=9.0) as kept:
            kept.transport.hangs = True
            kept.channel.site_timeout_s = 0.5
            began = time.monotonic()
            with pytest.raises(SiteTimedOut, match=r"site here has not been reached for \d+ s \(it does not answer\)"):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            assert time.monotonic() - began >= 0.4

    asyncio.run(go())


def test_a_site_whose_program_cannot_be_started_is_given_up_with_what_its_shell_says(run_folder: Path) -> None:
    (run_folder / "mto").unlink()

    async def go() -> None:
        async with Kept(run_folder) as kept:
            await until(lambda: bool(kept.gateway.why_silent), "it begins")
            kept.channel.site_timeout_s = 0.1
            with pytest.raises(SiteTimedOut, match=r"the site gateway has ended with status 127: .*mto: not found"):
                await asyncio.wait_for(kept.keeping, LIMIT_S)

    asyncio.run(go())


def test_a_site_whose_disk_is_full_is_given_up_and_told_once(run_folder: Path) -> None:
    (run_folder / "lease").mkdir()  # whoever writes the lease fails, again and again

    async def go() -> None:
        async with Kept(run_folder) as kept:
            await until(lambda: bool(kept.told), "it does not fail")
            kept.channel.site_timeout_s = 3.0  # a proxy begins about once a second
            with pytest.raises(SiteTimedOut, match=r"\(cannot write .*/lease: "):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            (told,) = kept.told
            assert told.startswith(f"here: cannot write {run_folder}/lease: ")
            assert kept.transport.started == 1

    asyncio.run(go())


def test_a_run_whose_folder_cannot_be_written_is_given_up_alone(tmp_path: Path) -> None:
    full, other = folder_of_run(tmp_path / "full"), folder_of_run(tmp_path / "other")
    (full / "lease").mkdir()

    async def go() -> None:
        async with Kept(full) as kept, Kept(other, beside=kept) as beside:
            await until(lambda: bool(kept.told) and (other / "lease").is_file(), "one of them is not written")
            kept.channel.site_timeout_s = 1.0
            with pytest.raises(SiteTimedOut, match=r"\(cannot write .*/full/lease: "):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            assert not beside.keeping.done()
            assert beside.told == []

    asyncio.run(go())


def test_a_connection_that_stood_is_made_again_at_once_however_often_it_was_tried_before(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LONGEST_RETRY_S", 3600.0)

    async def go() -> None:
        async with Kept(run_folder, lease_s=3600.0) as kept:
            attempts = kept.transport.attempts
            kept.transport.is_down = True
            await until(lambda: len(attempts) >= 6, "it is not tried")
            kept.transport.is_down = False
            kept.channel.follow_reports("m.1")
            kept.report(Over())
            await kept.until(1)
            pause_s = attempts[-1] - attempts[-2]
            await asyncio.sleep(2 * session.RETRY_S)  # it stands for longer than the first pause
            cut_at = time.monotonic()
            await kept.transport.cut()
            await until(lambda: kept.transport.started == 2, "it is not made again")
            assert attempts[-1] - cut_at < pause_s

    asyncio.run(go())


class ClosingSlowly(Breaking):
    """A way on which the input of a program is closed when it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closing, self.may_close = asyncio.Event(), asyncio.Event()

    async def start_program(self, command: str, *, lease_s: float = 30.0) -> OwnProgram:
        program = await super().start_program(command, lease_s=lease_s)
        close = program.close_stdin

        async def close_later() -> None:
            self.is_closing.set()
            await self.may_close.wait()
            await close()

        program.close_stdin = close_later  # type: ignore[method-assign]
        return program


def test_a_run_that_comes_while_the_last_one_leaves_is_heard(tmp_path: Path) -> None:
    first, second = folder_of_run(tmp_path / "first"), folder_of_run(tmp_path / "second")

    async def go() -> None:
        transport = ClosingSlowly()
        async with Kept(first, transport=transport) as kept:
            kept.channel.follow_reports("m.1")
            kept.report(Over())
            await kept.until(1)
            kept.keeping.cancel()
            await asyncio.wait_for(transport.is_closing.wait(), LIMIT_S)
            other = Kept(second, beside=kept)
            other.channel.follow_reports("m.1")
            keeping = asyncio.create_task(other.channel.keep())
            other.report(StepFailed(1))
            await other.until(1)
            transport.may_close.set()
            await asyncio.gather(kept.keeping, return_exceptions=True)
            other.channel.send_order("m.1", Go())
            assert await other.orders(1) == [{"n": 1, "do": "go"}]
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(go())


def test_runs_share_a_connection_which_goes_on_when_the_first_of_them_has_left(tmp_path: Path) -> None:
    first, second = folder_of_run(tmp_path / "first"), folder_of_run(tmp_path / "second")

    async def go() -> None:
        async with Kept(first) as kept:
            kept.channel.follow_reports("m.1")
            kept.report(Over())
            await kept.until(1)
            async with Kept(second, beside=kept) as other:
                other.channel.follow_reports("m.1")
                other.report(StepFailed(1))
                await other.until(1)
                kept.keeping.cancel()
                await asyncio.gather(kept.keeping, return_exceptions=True)
                shutil.rmtree(first)
                other.report(StepFailed(2))
                await other.until(2)
                other.channel.send_order("m.1", Go())
                assert await other.orders(1) == [{"n": 1, "do": "go"}]
                assert (kept.heard, other.heard) == ([Over()], [StepFailed(1), StepFailed(2)])
                assert kept.transport.started == 1
                process = kept.transport.process
            assert process is not None
            await asyncio.wait_for(process.wait(), LIMIT_S)

    asyncio.run(go())


def test_a_report_that_nobody_understands_ends_the_session_of_its_run_alone(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            Kept(folder_of_run(tmp_path / "first")) as kept,
            Kept(folder_of_run(tmp_path / "second"), beside=kept) as other,
        ):
            kept.channel.follow_reports("m.1")
            other.channel.follow_reports("m.1")
            kept.write('{"is": "readdy"}')
            with pytest.raises(ProtocolError):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            other.report(Over())
            await other.until(1)

    asyncio.run(go())


def test_a_folder_of_a_job_that_is_gone_ends_the_session_of_its_run_alone(tmp_path: Path) -> None:
    first, second = folder_of_run(tmp_path / "first"), folder_of_run(tmp_path / "second")

    async def go() -> None:
        async with Kept(first) as kept, Kept(second, beside=kept) as other:
            kept.channel.follow_reports("m.1")
            other.channel.follow_reports("m.1")
            await until(lambda: (first / "lease").exists(), "the first is not served")
            shutil.rmtree(first)
            kept.channel.send_order("m.1", Go())
            with pytest.raises(SiteError, match=rf"{first}/jobs/m\.1/orders cannot be written at here: its folder"):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            other.channel.send_order("m.1", Go())
            assert await other.orders(1) == [{"n": 1, "do": "go"}]
            assert kept.transport.started == 1

    asyncio.run(go())


def test_every_run_of_a_connection_has_its_lease_renewed(tmp_path: Path) -> None:
    first, second = folder_of_run(tmp_path / "first"), folder_of_run(tmp_path / "second")

    async def go() -> None:
        async with Kept(first) as kept, Kept(second, beside=kept):
            await until(lambda: (first / "lease").exists() and (second / "lease").exists(), "a lease is missing")

    asyncio.run(go())


async def relay_of(kept: Kept) -> RelayChannel:
    """Start a relay beside the login proxy."""
    words = ["--site", f"t{os.getpid()}", "--listen", "127.0.0.1:0"]
    relay = await kept.gateway.start_relay(kept.channel.command, words)
    assert await relay.status() is not None
    return relay


async def answers(relay: RelayChannel) -> bool:
    return await asyncio.wait_for(relay.ask({"command": "status"}), LIMIT_S) is not None


def test_a_file_system_that_does_not_answer_holds_up_no_relay(run_folder: Path) -> None:
    async def go() -> None:
        os.mkfifo(run_folder / "jobs/m.1/orders")  # whoever opens it waits for a reader
        kept = Kept(run_folder)
        kept.gateway.every_s = 0.5
        async with kept:
            kept.channel.follow_reports("m.1")
            relay = await relay_of(kept)
            kept.channel.send_order("m.1", Go())
            stalled_s = STALLED_AFTER * kept.gateway.every_s
            await until(
                lambda: time.monotonic() - kept.gateway.proxy_heard_at > 2 * stalled_s, "the proxy does not wait"
            )
            assert await answers(relay)
            assert kept.transport.started == 1

    asyncio.run(go())


def test_a_site_whose_file_system_does_not_answer_is_given_up_and_the_process_there_ends(run_folder: Path) -> None:
    async def go() -> None:
        os.mkfifo(run_folder / "jobs/m.1/orders")
        async with Kept(run_folder) as kept:
            kept.channel.site_timeout_s = 1.0
            kept.channel.follow_reports("m.1")
            kept.channel.send_order("m.1", Go())
            with pytest.raises(SiteTimedOut):
                await asyncio.wait_for(kept.keeping, LIMIT_S)
            assert kept.transport.process is not None
            await asyncio.wait_for(kept.transport.process.wait(), LIMIT_S)

    asyncio.run(go())


def test_a_proxy_that_fails_begins_again_beside_the_relays_and_no_order_is_lost_or_overtaken(run_folder: Path) -> None:
    async def go() -> None:
        orders = run_folder / "jobs/m.1/orders"
        orders.mkdir()
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            relay = await relay_of(kept)
            kept.channel.send_order("m.1", Signal("flow", 1))
            kept.gateway.send({"do": "dance"})
            await until(lambda: "is not understood" in kept.gateway.why_silent, "it does not fail")
            kept.channel.send_order("m.1", Signal("flow", 2))
            orders.rmdir()
            kept.report(Over())
            await kept.until(1)
            assert [order["n"] for order in await kept.orders(2)] == [1, 2]
            assert await answers(relay)
            assert kept.transport.started == 1

    asyncio.run(go())


def test_an_order_that_cannot_be_written_is_taken_as_soon_as_it_can_be(run_folder: Path) -> None:
    async def go() -> None:
        orders = run_folder / "jobs/m.1/orders"
        orders.mkdir()
        async with Kept(run_folder) as kept:
            kept.channel.follow_reports("m.1")
            kept.channel.send_order("m.1", Signal("flow", 1))
            before = kept.gateway.proxy_heard_at
            await until(lambda: kept.gateway.proxy_heard_at > before, "it does not answer")
            orders.rmdir()
            kept.channel.send_order("m.1", Signal("flow", 2))
            assert [order["n"] for order in await kept.orders(2)] == [1, 2]
            await until(lambda: not kept.channel.has_orders(), "the orders are not said to be taken")
            assert not kept.gateway.why_silent

    asyncio.run(go())


def test_what_is_sent_before_a_failure_is_known_goes_to_no_later_proxy(run_folder: Path) -> None:
    async def go() -> None:
        orders = run_folder / "jobs/m.1/orders"
        orders.mkdir()
        transport = Breaking()
        try:
            process = await transport.start_program(f"exec {command_at(str(run_folder))} talk")
            lines = process.lines()
            order = {"to": "m.1", "order": {"n": 1, "do": "go"}}
            for what in (order, {"do": "dance"}):
                await process.write(json.dumps(what).encode() + b"\n")
            while "failed" not in (line := await anext(lines)):
                pass
            orders.rmdir()
            await process.write(json.dumps({"to": "m.1", "order": {"n": 2, "do": "go"}}).encode() + b"\n")
            for what in ({"proxy": "begin"}, order):
                await process.write(json.dumps(what).encode() + b"\n")
            while "taken" not in (line := await anext(lines)):
                pass
            assert json.loads(line) == {"is": "taken", "agent": "m.1", "order": 1}
            assert complete_lines(orders) == [{"n": 1, "do": "go"}]
        finally:
            await transport.close()

    asyncio.run(go())


def test_a_relay_stays_when_the_last_run_leaves(run_folder: Path) -> None:
    async def go() -> None:
        kept = Kept(run_folder)
        relay = await relay_of(kept)
        async with kept:
            kept.channel.follow_reports("m.1")
            kept.report(Over())
            await kept.until(1)
            kept.keeping.cancel()
            await asyncio.gather(kept.keeping, return_exceptions=True)
            assert await answers(relay)
            process = kept.transport.process
            assert process is not None
            await relay.end()
            await asyncio.wait_for(process.wait(), LIMIT_S)
            assert kept.transport.started == 1

    asyncio.run(go())


def test_an_answer_that_nobody_waits_for_any_more_is_nobody_else_s(run_folder: Path) -> None:
    async def go() -> None:
        kept = Kept(run_folder)
        relay = await relay_of(kept)
        try:
            asking = asyncio.create_task(relay.ask({"command": "status"}))
            await asyncio.sleep(0)  # it is sent
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            answer = await asyncio.wait_for(relay.ask({"command": "remove-run", "run": "canal"}), LIMIT_S)
            assert answer is not None
            assert "status" not in answer
        finally:
            await relay.end()
            await kept.transport.close()

    asyncio.run(go())


def test_whoever_waits_for_a_relay_that_is_given_up_waits_no_more(run_folder: Path) -> None:
    async def go() -> None:
        os.mkfifo(run_folder / "nobody-writes")
        kept = Kept(run_folder)
        words = ["--site", f"t{os.getpid()}", "--listen", "127.0.0.1:0", "--log", str(run_folder / "nobody-writes")]
        relay = await kept.gateway.start_relay(kept.channel.command, words)  # waits for a reader of its log
        try:
            waiting = asyncio.gather(relay.status(), relay.wait())
            await relay.end(is_given_up=True)
            assert await asyncio.wait_for(waiting, LIMIT_S) == [None, ""]
            assert await asyncio.wait_for(relay.ask({"command": "status"}), LIMIT_S) is None
        finally:
            await kept.transport.close()

    asyncio.run(go())
