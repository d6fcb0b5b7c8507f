"""How often agents and talkers look at files that other hosts write: when they are told, else ever more seldom."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from agents_at_a_site import Site
from needs import needs
from waiting import LIMIT_S, wait_until

#: So long somebody waits who has nothing to do [s].
IDLE_S = 10.0
#: The longest pause between two looks [s] (native/site/src/polling.rs).
LOOK_AT_LEAST_EVERY_S = 2.0
#: What a look at orders, reports or the lease takes at most, in system calls with a path.
CALLS_OF_A_LOOK = 2


@needs("strace")
def test_an_agent_that_has_nothing_to_do_hardly_looks_at_files(site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    (site.folder / "jobs/m.1/0").mkdir(parents=True)
    agent = subprocess.Popen(traced(trace, *site.command("agent", "m.1/0", "1000")))
    site.started.append(agent)
    site.await_report("m.1/0", "ready")
    assert looks(trace, site) <= 2, "orders and lease"
    site.tell("m.1/0", 1, do="abort")
    wait_until(lambda: agent.poll() is not None, "it does not end")


@needs("strace")
def test_a_talker_to_whom_nobody_reports_hardly_looks_at_files(site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    jobs = [f"m.1/{node}" for node in range(4)]
    for job in jobs:
        site.job(job)
        site.await_report(job, "ready")
    command = traced(trace, *site.command("talk"))
    talker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    site.started.append(talker)
    assert talker.stdin is not None
    assert talker.stdout is not None
    talker.stdin.write(json.dumps({"listen": dict.fromkeys(jobs, 0)}).encode() + b"\n")
    talker.stdin.flush()
    said = [json.loads(talker.stdout.readline()) for _ in range(1 + len(jobs))]
    assert sum("report" in each for each in said) == len(jobs)
    assert looks(trace, site) <= len(jobs)
    talker.stdin.close()
    assert talker.wait(LIMIT_S) == 0


def traced(trace: Path, *command: str) -> list[str]:
    """Return a command whose system calls with a path are noted."""
    return ["strace", "-f", "-o", str(trace), "-e", "trace=%file", *command]


def looks(trace: Path, site: Site) -> float:
    """Wait until looks have become as seldom as they get; return how many there are then in the longest pause."""
    time.sleep(IDLE_S)
    began, before = time.monotonic(), len(calls(trace, site))
    time.sleep(IDLE_S)  # what is counted is what happens by itself
    count = (len(calls(trace, site)) - before) / CALLS_OF_A_LOOK
    return count / ((time.monotonic() - began) / LOOK_AT_LEAST_EVERY_S + 1)


def calls(trace: Path, site: Site) -> list[str]:
    return [line for line in trace.read_text().splitlines() if str(site.folder) in line]
