"""The folder of a run at a site, with agents in it, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from waiting import LIMIT_S, complete_lines, wait_until
from xmml_native import mto


class Site:
    """The folder of a run at a site, with agents in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        for name in ("jobs", "model", "instances"):
            (folder / name).mkdir(parents=True)
        (folder / "mto").symlink_to(mto.PROGRAM)

    def command(self, *words: str) -> list[str]:
        return [str(self.folder / "mto"), "site", "--run", str(self.folder), *words]

    def run(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self.command(*words), **options)
        self.started.append(process)
        return process

    def job(self, name: str, patience_s: float = LIMIT_S) -> subprocess.Popen[bytes]:
        (self.folder / "jobs" / name).mkdir(parents=True, exist_ok=True)
        return self.run("agent", name, str(patience_s))

    def tell(self, job: str, number: int, **order: Any) -> None:
        (self.folder / "jobs" / job).mkdir(parents=True, exist_ok=True)
        with (self.folder / "jobs" / job / "orders").open("a") as file:
            file.write(json.dumps({"n": number, **order}) + "\n")

    def start(self, job: str, number: int, command: list[str], **more: Any) -> None:
        instance = self.folder / "instances" / "a"
        order = {
            "do": "start",
            "name": "a",
            "command": command,
            "env": {"PATH": os.environ["PATH"]},
            "folder": str(instance / "work"),
            "stdout": str(instance / "stdout"),
            "stderr": str(instance / "stderr"),
            "terminal": None,
            "hosted": [],
            "fork": False,
            **more,
        }
        self.tell(job, number, **order)

    def reports(self, job: str) -> list[dict[str, Any]]:
        return complete_lines(self.folder / "jobs" / job / "reports")

    def renew(self, sign: int, lasts_s: float) -> None:
        """Say that the launcher lives, and may be silent for so long from now on."""
        (self.folder / "lease.new").write_text(f"{sign} {lasts_s}\n")
        (self.folder / "lease.new").replace(self.folder / "lease")

    def await_report(self, job: str, what: str) -> dict[str, Any]:
        return wait_until(
            lambda: next((each for each in self.reports(job) if each["is"] == what), None), f"no report {what}"
        )

    def close(self) -> None:
        """End what was started."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def connections_to(port: int) -> int:
    """How many connections to a port stand, as this thread's network has them."""
    rows = [row.split() for row in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)
