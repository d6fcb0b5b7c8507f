"""Several runs over two sites in one process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import command_line, parent
from several_sites import Sites
from sshd import Sshd
from waiting import RUN_LIMIT_S, complete_lines, wait_until

PLACES = {"asks": "alpha", "answers": "beta"}
WAITS = "import time; time.sleep(600)"
FAILS = "raise RuntimeError('this one fails')"


class Server:
    """The process, which runs models over two sites."""

    def __init__(self, sites: Sites, descriptors: int | None = None) -> None:
        """
        Args:
            descriptors: how many the process may have open; `None`: as many as this one.
        """
        self.sites = sites
        self.process = subprocess.Popen(
            [sys.executable, "-m", "xmml_run.run_server", str(sites.folder / "shared")],
            env=sites.environment,
            cwd=sites.folder,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        if descriptors is not None:
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.statuses: dict[str, int] = {}
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer = json.loads(line)
            self.statuses[answer["ended"]] = answer["status"]

    def request(self, **what: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def folder(self, run: str) -> Path:
        return self.sites.folder / "runs" / run

    def begin(self, run: str, model: Path, *more: str) -> None:
        self.sites.run_folder = self.folder(run)
        log = str(self.sites.folder / f"{run}.log")
        self.request(run=run, arguments=self.sites.options(model, PLACES, *more), stdout=log, stderr=log)

    def log(self, run: str) -> str:
        return (self.sites.folder / f"{run}.log").read_text()

    def await_end(self, run: str) -> int:
        wait_until(lambda: run in self.statuses, lambda: f"{run} does not end: {self.log(run)}", RUN_LIMIT_S)
        return self.statuses[run]

    def await_joined(self, run: str) -> None:
        def joined() -> bool:
            assert run not in self.statuses, self.log(run)
            events = complete_lines(self.folder(run) / "events.jsonl")
            return {each["instance"] for each in events if each["what"] == "joined"} == set(PLACES)

        wait_until(joined, f"{run} does not begin")

    def end(self) -> int:
        """Request nothing more; return the exit status of the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(RUN_LIMIT_S)
        self.reader.join()
        return status


@pytest.fixture
def server(sites: Sites) -> Iterator[Server]:
    server = Server(sites)
    yield server
    with server.process:
        sites.kill(server.process)
    server.reader.join()


def test_each_run_of_a_process_has_its_own_status_output_and_results(server: Server, sites: Sites) -> None:
    model = sites.write_model()
    server.begin("first", model, "-p", "asks.x=1")
    server.begin("second", model)
    server.begin("third", model)
    assert [server.await_end(run) for run in ("first", "second", "third")] == [1, 0, 0]
    assert "asks.x" in server.log("first")
    for run in ("second", "third"):
        assert server.log(run).count("the last answer is 16.1") == 1
        assert (server.folder(run) / "instances/asks/work/result.txt").read_text() == "16.1"
        assert json.loads((server.folder(run) / "provenance.json").read_text())["command_line"][0] == "xmml-run"
    assert server.end() == 0


def test_a_run_that_fails_or_is_stopped_ends_no_other(server: Server, sites: Sites) -> None:
    server.begin("waits", sites.write_model(asks=WAITS))
    server.await_joined("waits")
    server.begin("stopped", sites.folder / "model/model.xmml")
    server.await_joined("stopped")
    server.begin("fails", sites.write_model(asks=FAILS))
    assert server.await_end("fails") == 4
    assert "this one fails" in server.log("fails")
    server.request(stop="stopped")
    assert server.await_end("stopped") == 130
    assert "waits" not in server.statuses
    server.request(stop="waits")
    assert server.await_end("waits") == 130
    assert server.end() == 0


def test_wrong_options_end_one_run_and_say_what_is_wrong(server: Server, sites: Sites) -> None:
    server.begin("detached", sites.write_model(), "--detach")
    server.begin("unknown", sites.write_model(), "--unknown")
    assert [server.await_end(run) for run in ("detached", "unknown")] == [2, 2]
    assert "--detach needs a process of its own" in server.log("detached")
    assert "there is no option --unknown" in server.log("unknown")


def test_a_process_that_is_requested_nothing_more_ends_with_its_last_run(server: Server, sites: Sites) -> None:
    go = sites.folder / "go"
    waits = f"import os, time\n            while not os.path.exists({str(go)!r}): time.sleep(0.05)"
    server.begin("goes on", sites.write_model(asks=waits))
    server.await_joined("goes on")
    assert server.process.stdin is not None
    server.process.stdin.close()
    go.touch()
    assert server.process.wait(RUN_LIMIT_S) == 0
    server.reader.join()
    assert server.statuses == {"goes on": 0}


def test_a_signal_stops_every_run_of_the_process(server: Server, sites: Sites) -> None:
    model = sites.write_model(asks=WAITS)
    for run in ("first", "second"):
        server.begin(run, model)
    for run in ("first", "second"):
        server.await_joined(run)
    server.process.terminate()
    assert [server.await_end(run) for run in ("first", "second")] == [130, 130]
    assert server.end() == 0


def test_a_run_that_waits_for_its_turn_to_be_planned_is_stopped_before_it_begins(server: Server, sites: Sites) -> None:
    model, runs = sites.write_model(asks=WAITS), [f"run {number}" for number in range(12)]
    for run in runs:
        server.begin(run, model)
    wait_until(lambda: any(server.folder(run).is_dir() for run in runs), "no run begins")
    server.process.terminate()
    assert {server.await_end(run) for run in runs} == {130}
    assert "interrupted before the run began" in server.log(runs[-1])
    assert not server.folder(runs[-1]).exists()
    assert server.end() == 0


def test_more_runs_than_the_process_has_descriptors_for_fail_and_end_no_other(sites: Sites) -> None:
    server = Server(sites, descriptors=110)
    try:
        server.begin("first", sites.write_model(asks=WAITS))
        server.await_joined("first")
        others = [f"other-{number}" for number in range(10)]
        words = sites.options(sites.folder / "model/model.xmml", PLACES)
        for run in others:
            arguments = [word.replace(str(sites.run_folder), str(server.folder(run))) for word in words]
            log = str(sites.folder / f"{run}.log")
            server.request(run=run, arguments=arguments, stdout=log, stderr=log)
        wait_until(lambda: any(run in server.statuses for run in others), "none of the runs fails", RUN_LIMIT_S)
        server.process.terminate()
        assert server.await_end("first") == 130, server.log("first")
        statuses = {run: server.await_end(run) for run in others}
        logs = {run: (sites.folder / f"{run}.log").read_text() for run in others}
        # What a run lacked a descriptor for differs: its model, its supervisor, a connection to a site.
        failed = [logs[run] for run, status in statuses.items() if status in (1, 5)]
        assert failed
        assert all("oo many open files" in log for log in failed), failed
        assert set(statuses.values()) <= {1, 5, 130}, logs
        assert server.end() == 0
    finally:
        with server.process:
            sites.kill(server.process)


def test_runs_of_a_process_share_one_login_and_one_gateway_at_each_site(server: Server, sites: Sites) -> None:
    model = sites.write_model(asks=WAITS)
    server.begin("first", model)
    server.await_joined("first")
    opened = {name: each.opened() for name, each in sites.servers.items()}
    server.begin("second", model)
    server.await_joined("second")
    assert {name: each.opened() for name, each in sites.servers.items()} == opened
    for each in sites.servers.values():
        (gateway,) = [pid for pid, line in each.processes().items() if " talk " in line]
        # On NFS the folder of the run that began first could not be removed while it is executed from there.
        assert Path(f"/proc/{gateway}/exe").readlink().parent == (each.home / "xmml/staged").resolve()
    server.request(stop="first")
    assert server.await_end("first") == 130
    assert "second" not in server.statuses
    server.request(stop="second")
    assert server.await_end("second") == 130
    for each in sites.servers.values():
        assert each.wait_until_nothing_runs() == {}, "what the runs had at the site stays"
    assert {name: each.connections() for name, each in sites.servers.items()} == opened, "kept for the next run"
    assert server.end() == 0


def relays(sites: Sites) -> dict[str, int]:
    """How many relays run at each site: threads of the site gateway."""

    def threads(site: Sshd) -> list[str]:
        names = []
        for pid in site.processes():
            for each in Path(f"/proc/{pid}/task").glob("*/comm"):
                with contextlib.suppress(OSError):  # a question to the queue runs for a moment only
                    names.append(each.read_text().strip())
        return names

    return {name: threads(each).count("relay") for name, each in sites.servers.items()}


@pytest.fixture
def queued(sites: Sites) -> Sites:
    """The sites, with a stand-in for PBS each, and so with relays."""
    for name in sites.servers:
        sites.give_queue(name, "openpbs")
    return sites


def test_runs_of_a_process_share_one_relay_at_each_cluster(queued: Sites, server: Server) -> None:
    model = queued.write_model(asks=WAITS)
    for run in ("first", "second"):
        server.begin(run, model)
    for run in ("first", "second"):
        server.await_joined(run)
    assert relays(queued) == {"alpha": 1, "beta": 1}
    server.request(stop="first")
    assert server.await_end("first") == 130
    server.begin("third", queued.write_model())
    assert server.await_end("third") == 0, server.log("third")
    assert "second" not in server.statuses
    assert relays(queued) == {"alpha": 1, "beta": 1}
    server.request(stop="second")
    assert server.await_end("second") == 130
    assert server.end() == 0


def at_login_node(server: Sshd) -> list[str]:
    """What runs there because of connections: jobs of the stand-in are no children of these."""

    def comes_by_ssh(pid: int) -> bool:
        with contextlib.suppress(OSError):
            while pid > 1:
                pid = parent(pid)
                if command_line(Path(f"/proc/{pid}")).startswith("sshd"):
                    return True
        return False

    there = server.processes()
    return [line for pid, line in there.items() if not line.startswith("sshd") and comes_by_ssh(pid)]


def test_one_process_is_all_that_stays_at_a_login_node_for_any_number_of_runs(queued: Sites, server: Server) -> None:
    model = queued.write_model(asks=WAITS)
    for run in ("first", "second", "third"):
        server.begin(run, model)
        server.await_joined(run)  # the stand-in takes one job at a time

    def only_one(site: Sshd) -> bool:
        lines = at_login_node(site)  # a question to the queue runs for a moment only
        return len(lines) == 1 and " talk " in lines[0]

    for each in queued.servers.values():
        wait_until(lambda each=each: only_one(each), lambda each=each: f"these stay: {at_login_node(each)}")
    assert relays(queued) == {"alpha": 1, "beta": 1}
    server.process.terminate()
    assert [server.await_end(run) for run in ("first", "second", "third")] == [130, 130, 130]
    assert server.end() == 0
    assert queued.left_behind() == []


def test_runs_with_other_links_have_relays_of_their_own(queued: Sites, server: Server) -> None:
    queued.method = "relay"
    model = queued.write_model(asks=WAITS)
    server.begin("first", model)
    server.await_joined("first")
    queued.link = "streams = 2"
    server.begin("second", model)
    server.await_joined("second")
    assert relays(queued) == {"alpha": 2, "beta": 2}
    for run in ("second", "first"):
        assert "has ended" not in server.log(run)
        server.request(stop=run)
        assert server.await_end(run) == 130
    assert server.end() == 0


def test_runs_with_another_description_of_a_site_have_a_relay_of_their_own_there(queued: Sites, server: Server) -> None:
    queued.method = "relay"
    model = queued.write_model(asks=WAITS)
    server.begin("first", model)
    server.await_joined("first")
    python = queued.folder / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o700)
    queued.python["alpha"] = str(python)
    server.begin("second", model)
    server.await_joined("second")
    assert relays(queued) == {"alpha": 2, "beta": 1}
    for run in ("second", "first"):
        assert "has ended" not in server.log(run)
        server.request(stop=run)
        assert server.await_end(run) == 130
    assert server.end() == 0


def test_a_run_begins_when_the_relay_of_this_machine_was_killed_while_there_was_none(
    queued: Sites, server: Server
) -> None:
    model = queued.write_model()
    server.begin("first", model)
    assert server.await_end("first") == 0
    children = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    relays = [pid for each in children for pid in map(int, each.read_text().split()) if is_relay(pid)]
    assert len(relays) == 1
    os.kill(relays[0], signal.SIGKILL)
    server.begin("second", model)
    assert server.await_end("second") == 0, server.log("second")
    assert server.end() == 0


def is_relay(pid: int) -> bool:
    return b"--stdin" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def test_cancelling_the_runs_of_a_killed_process_leaves_nothing_at_the_clusters(queued: Sites, server: Server) -> None:
    model = queued.write_model(asks=WAITS)
    for run in ("first", "second"):
        server.begin(run, model)
    for run in ("first", "second"):
        server.await_joined(run)
    queued.kill(server.process)
    for run in ("first", "second"):
        queued.do("xmml", "cancel", str(server.folder(run))).check(0)
    assert queued.left_behind() == []
