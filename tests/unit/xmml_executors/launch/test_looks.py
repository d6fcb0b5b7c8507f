"""How often agents and talkers look at files that other hosts write: when they are told, else ever more seldom."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from agents_at_a_site import Site
from needs import needs
from waiting import LIMIT_S, wait_until
from xmml_executors.launch import agent


def talk(site: Site, *words: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a talker and tell it something."""
    talker = site.run("talk", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert talker.stdin is not None
    talker.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in words))
    talker.stdin.flush()
    return talker


def say(talker: subprocess.Popen[bytes], word: dict[str, Any]) -> None:
    assert talker.stdin is not None
    talker.stdin.write(json.dumps(word).encode() + b"\n")
    talker.stdin.flush()


def hear(talker: subprocess.Popen[bytes]) -> Any:
    assert talker.stdout is not None
    return json.loads(talker.stdout.readline())


def test_orders_and_reports_come_at_once_while_the_connection_stands(site: Site) -> None:
    program = site.folder / "agent.py"
    text = program.read_text()
    for name in ("LOOK_AFTER_S", "LOOK_AT_LEAST_EVERY_S"):  # nobody looks by himself
        text = re.sub(rf"^{name} = .*$", f"{name} = 1e6", text, flags=re.MULTILINE)
    program.write_text(text)
    placeholder = site.job("m.1/0", patience_s=LIMIT_S)
    ready = site.await_report("m.1/0", "ready")
    talker = talk(site, {"listen": {"m.1/0": 0}}, {"watch": {"m.1/0": ["127.0.0.1", ready["port"]]}})
    assert hear(talker)["is"] == "talking"
    assert hear(talker)["report"]["is"] == "ready"
    say(talker, {"to": "m.1/0", "order": {"n": 1, "do": "abort"}})
    assert hear(talker) == {"taken": 1, "by": "m.1/0"}
    assert hear(talker)["report"] == {"is": "over"}
    assert placeholder.wait(LIMIT_S) == agent.ABORTED


def test_looks_come_soon_after_something_was_found_and_ever_more_seldom_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(agent.time, "monotonic", lambda: now_s)
    looks = agent.Looks()
    looks.looked(found=True)
    pauses = []
    while now_s < 60:
        pauses.append(looks.due_in_s())
        now_s += pauses[-1]
        looks.looked(found=False)
    assert pauses[0] == pytest.approx(agent.LOOK_AFTER_S)
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(agent.LOOK_AT_LEAST_EVERY_S)
    looks.has_news = True
    assert looks.due_in_s() == pytest.approx(agent.MOST_OFTEN_S)


#: So long somebody waits who has nothing to do [s].
IDLE_S = 10.0


@needs("strace")
def test_who_has_nothing_to_do_hardly_looks_at_files(site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-o", trace, "-e", "trace=openat", *map(str, site.command("wait", "m.1/0", "1000"))]
    (site.folder / "jobs/m.1/0").mkdir(parents=True)
    agent_process = subprocess.Popen(command)
    site.started.append(agent_process)
    site.await_report("m.1/0", "ready")
    began = len(looks_in(trace))
    time.sleep(IDLE_S)  # what is counted is what happens by itself
    assert len(looks_in(trace)) - began <= 5 * IDLE_S / agent.LOOK_AT_LEAST_EVERY_S
    site.tell("m.1/0", 1, do="abort")
    wait_until(lambda: agent_process.poll() is not None, "it does not end")


def looks_in(trace: Path) -> list[str]:
    """The looks at files of the run's folder."""
    return [line for line in trace.read_text().splitlines() if "/orders" in line or "/lease" in line]
