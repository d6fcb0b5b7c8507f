"""A model of two programs that talk for as long as a test wants, and its runs from the laptop of the test bed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from waiting import wait_until

from testbed.bed import Bed

#: Nothing that is waited for takes longer.
LIMIT_S = 120.0
_MODEL = """\
<model id="pair" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Talker">
      <timescale delta="1 s" total="{steps} s"/>
      <ports> <out id="say" operator="Oi"/> <in id="hear" operator="S"/> </ports>
      <implementation language="python" path="talker.py" run:args="{pause}"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="left" submodel="Talker"/> <instance id="right" submodel="Talker"/>
    <coupling from="left.say" to="right.hear"/> <coupling from="right.say" to="left.hear"/>
  </topology>
</model>
"""

#: Says what it hears; ends badly where a file `crash` lies in its home directory, and waits while there is one `hold`.
#: Where one says `result`, it makes a file of so many bytes in the end.
_TALKER = """\
import os, sys, time
from pathlib import Path
import xmml

with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            me.send("say", t)
            print("heard", me.receive("hear").data, "on", os.uname().nodename, flush=True)
            time.sleep(float(sys.argv[1]))
            while (Path.home() / "hold").exists():
                time.sleep(0.05)
            if (Path.home() / "crash").exists():
                sys.exit("told to crash")
wish = Path.home() / "result"
if wish.exists():
    Path("result").write_bytes(os.urandom(int(wish.read_text())))
"""


class Pair:
    """The model in a folder of its own.

    Args:
        steps: how often they talk.
        pause: how long each waits between [s].
    """

    def __init__(self, bed: Bed, folder: Path, *, steps: int = 5, pause: float = 0.0) -> None:
        self.bed = bed
        self.folder = folder
        self.runs: list[Run] = []
        folder.mkdir(parents=True)
        (folder / "model.xml").write_text(_MODEL.format(steps=steps, pause=pause))
        (folder / "talker.py").write_text(_TALKER)

    def start(
        self,
        sites: str,
        places: dict[str, str],
        *words: str,
        output: str = "run",
        is_direct: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Start `xmml-run` on the laptop; the run's folder is `output`, beside the model.

        Args:
            is_direct: everybody can dial the laptop.
            env: what its environment has besides.
        """
        (self.folder / "sites.toml").write_text(sites)
        command: list[str | Path] = [Path(sys.executable).with_name("xmml-run"), "model.xml", "--sites", "sites.toml"]
        command += [word for name, site in places.items() for word in ("--place", f"{name}={site}")]
        command += ["-o", output, "-v", *(["--listen", "laptop:0"] if is_direct else []), *words]
        environment = {**os.environ, "TMPDIR": str(self.bed.temporary), **(env or {})}
        began = time.monotonic()
        process = self.bed.laptop.start(command, cwd=self.folder, env=environment, **_PIPES)
        self.runs.append(Run(self, self.folder / output, process, began))
        return self.runs[-1]

    def end(self) -> None:
        """End the runs that a test has left, because it failed."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.kill()
            run.process.wait()

    def run(self, sites: str, places: dict[str, str], *words: str) -> Run:
        """Run it to its end."""
        run = self.start(sites, places, *words)
        run.wait()
        return run


_PIPES: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}


class Run:
    """A run that goes on, or is over."""

    def __init__(self, pair: Pair, folder: Path, process: Any, began: float) -> None:
        self.pair = pair
        self.folder = folder
        self.process = process
        self.began = began
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        """All that it has written."""
        return "\n".join(self.lines)

    def until(self, words: str) -> None:
        """Wait until it has written a line with these words."""

        def is_written() -> bool:
            is_over = self.process.poll() is not None
            if is_over:
                self._reading.join(10)
            if any(words in line for line in list(self.lines)):
                return True
            assert not is_over, f"it ended before it wrote {words!r}:\n{self.output}"
            return False

        wait_until(is_written, lambda: f"it did not write {words!r}:\n{self.output}", LIMIT_S)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def cancel(self) -> subprocess.CompletedProcess[str]:
        """Remove what it has left, by its journal; how that ended."""
        pair = self.pair
        xmml = Path(sys.executable).with_name("xmml")
        command = [xmml, "cancel", self.folder.name]
        return pair.bed.laptop.run(command, cwd=pair.folder, timeout_s=LIMIT_S, check=False)

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Wait for its end; its exit status."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it does not end:\n{self.output}") from None
        self._reading.join(10)
        return int(status)


def sites(bed: Bed, **changes: str) -> str:
    """The sites; a change is a line of a site's table. No relay is needed: nothing here comes to the first message, or
    compute nodes may dial the laptop."""
    text = bed.sites_toml("alpha", "beta", "gamma")
    for pair in (("alpha", "beta"), ("alpha", "gamma"), ("beta", "gamma")):
        text += '[[link]]\nbetween = ["{}", "{}"]\nmethods = ["tcp"]\n'.format(*pair)
    for name, line in changes.items():
        table = f"[site.{name}]\n"
        key = line.partition(" ")[0]
        start = text.index(table) + len(table)
        end = text.find("\n[", start)
        rows = [row for row in text[start : end if end > 0 else None].splitlines() if row.partition(" ")[0] != key]
        text = text[:start] + "\n".join([*rows, line, ""]) + (text[end:] if end > 0 else "")
    return text


@contextlib.contextmanager
def small_folder(bed: Bed, site: str, size: str) -> Iterator[str]:
    """A folder of the first user of a site, on a disk of its own of some size."""
    place = bed.site(site)
    user = place.users[0]
    folder = f"/home/{user.name}/small"
    make = f"mkdir {folder}; mount -t tmpfs -o size={size},uid={user.number} tmpfs {folder}"
    place.login.run(["sh", "-ec", make], cwd="/")
    try:
        yield folder
    finally:
        place.login.run(["sh", "-ec", f"umount {folder}; rmdir {folder}"], cwd="/")


@contextlib.contextmanager
def full_folder(bed: Bed, site: str) -> Iterator[str]:
    """A folder of the first user of a site in which there is no room."""
    with small_folder(bed, site, "64k") as folder:
        bed.site(site).login.run(["sh", "-c", f"head -c 60000 /dev/zero > {folder}/f"], cwd="/")
        yield folder
