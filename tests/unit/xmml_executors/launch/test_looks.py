"""How often agents and talkers look at files that other hosts write: when they are told, else ever more seldom."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from agents_at_a_site import Site
from needs import needs
from waiting import wait_until

#: So long somebody waits who has nothing to do [s].
IDLE_S = 10.0
#: The longest pause between two looks [s] (native/site/src/polling.rs).
LOOK_AT_LEAST_EVERY_S = 2.0


@needs("strace")
def test_who_has_nothing_to_do_hardly_looks_at_files(site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-o", trace, "-e", "trace=openat", *map(str, site.command("agent", "m.1/0", "1000"))]
    (site.folder / "jobs/m.1/0").mkdir(parents=True)
    agent_process = subprocess.Popen(command)
    site.started.append(agent_process)
    site.await_report("m.1/0", "ready")
    began = len(looks_in(trace))
    time.sleep(IDLE_S)  # what is counted is what happens by itself
    assert len(looks_in(trace)) - began <= 5 * IDLE_S / LOOK_AT_LEAST_EVERY_S
    site.tell("m.1/0", 1, do="abort")
    wait_until(lambda: agent_process.poll() is not None, "it does not end")


def looks_in(trace: Path) -> list[str]:
    """The looks at files of the run's folder."""
    return [line for line in trace.read_text().splitlines() if "/orders" in line or "/lease" in line]
