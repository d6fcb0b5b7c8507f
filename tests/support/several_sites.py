"""Two sites over ssh, a model whose programs do what a test says, and `xmml-run` over both."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_pbs
import pytest
from commands import BIN
from scripts import write_python
from sshd import Sshd
from waiting import RUN_LIMIT_S, complete_lines, wait_until

SENDER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            {before}
            me.send("o", {{"step": t, "square": t * t}})
            left = me.receive("i").data
        print("the last answer is", left, flush=True)
        open("result.txt", "w").write(repr(left))
"""
ANSWERER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        asked = me.receive("i").data
        t = asked["step"]
        {before}
        me.send("o", asked["square"] + 0.1)
"""
MODEL = """<model id="pair" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Asks"><timescale delta="1 s" total="{steps} s"/>
      <ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>
      <implementation language="python" path="asks.py" run:stage-out="result.txt"/></submodel>
    <submodel id="Answers"><timescale delta="100 ms" total="1 s"/>
      <ports><in id="i" operator="finit"/><out id="o" operator="Of"/></ports>
      <implementation language="python" path="answers.py"/></submodel>
  </definitions>
  <topology>
    <instance id="asks" submodel="Asks"/><instance id="answers" submodel="Answers"/>
    <coupling from="asks.o" to="answers.i"/><coupling from="answers.o" to="asks.i"/>
  </topology>
</model>
"""

SITES = """
[site.here]
cores = 2
{sites}
[[link]]
between = ["alpha", "beta"]
methods = ["{method}"]
{link}
[[link]]
between = ["here", "alpha"]
methods = ["{method}"]
{link}
[[link]]
between = ["here", "beta"]
methods = ["{method}"]
{link}
"""

#: A queue that is no stand-in.
REAL_PBS = "a real OpenPBS"


def _folder_of_real_pbs() -> Path:
    """Return where the commands of OpenPBS are; skip the test where no server of it answers."""
    command = shutil.which("qstat")
    if command is None or subprocess.run([command, "-B"], capture_output=True).returncode != 0:
        pytest.skip("needs a server of OpenPBS that takes jobs: tests/testbed/openpbs pytest ...")
    return Path(command).parent


@dataclass
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str

    def check(self, status: int, *words: str) -> Ended:
        assert self.status == status, self.out + self.err
        for word in words:
            assert word in self.out + self.err, self.out + self.err
        return self


class Sites:
    """The sites `alpha` and `beta`, and this machine as `here`."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """
        Args:
            settings: lines of the configuration of the ssh server of some of the sites.
        """
        self.folder = folder
        self.settings = settings or {}
        self.more: dict[str, str] = {"alpha": "", "beta": ""}
        self.cores = dict.fromkeys(self.more, 2)  # of a node
        self.python = dict.fromkeys(self.more, sys.executable)
        self.method = "tcp"
        self.link = ""
        self.going: list[subprocess.Popen[str]] = []
        self.umask = -1  # of the commands; -1: the one of the tests

    def __enter__(self) -> Sites:
        self.servers = {
            name: Sshd(self.folder / name, name=name, settings=self.settings.get(name, ""))
            for name in ("alpha", "beta")
        }
        self.run_folder = self.folder / "run"
        config = self.folder / "ssh_config"
        config.write_text("".join(server.config.read_text() for server in self.servers.values()))
        # What ends must not end because it was given up: tests that are about that say after how long.
        patience = {"XMML_AWAY_LIMIT_S": "3600", "XMML_SITE_LEASE_S": "3600"}
        self.environment = {**os.environ, **patience, "XMML_SSH_CONFIG": str(config)}
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.going:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for server in self.servers.values():
            server.close()

    def write_model(self, *, asks: str = "pass", answers: str = "pass", steps: int = 5) -> Path:
        """Write the model; `asks` and `answers` are what its programs do in each step."""
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        (model / "asks.py").write_text(SENDER.format(before=asks))
        (model / "answers.py").write_text(ANSWERER.format(before=answers))
        (model / "model.xmml").write_text(MODEL.format(steps=steps))
        return model / "model.xmml"

    def give_queue(self, site: str, kind: str) -> None:
        """Let a site have a PBS: a stand-in for a dialect of it, which really runs the jobs, or the REAL_PBS of this
        machine; the test is skipped if that does not answer."""
        programs = self.servers[site].home / "bin"
        programs.mkdir()
        self.more[site] += 'scheduler = "pbs"\nwalltime = "5 min"\n'
        if kind == REAL_PBS:
            folder = _folder_of_real_pbs()
            for name in (*fake_pbs.USER_COMMANDS, "qalter", "qmgr"):
                (programs / name).symlink_to(folder / name)
            # Jobs run on other machines than the one where people log in.
            self.more[site] += f'listen = "node"\nrelay = {{ host = "{os.uname().nodename}" }}\n'
            return
        state = self.servers[site].home / ".fake-pbs"
        state.mkdir()
        if kind == "torque":
            (state / "torque").touch()
        _, _, text = Path(fake_pbs.__file__).read_text().partition("\n")
        write_python(programs / "pbs", text)
        for name in fake_pbs.COMMANDS:
            (programs / name).symlink_to("pbs")
        self.more[site] += f'dialect = "{kind}"\n'

    def at_queue(self, site: str, command: str, *words: str | Path) -> str:
        """Run a command of the queue of a site; return what it prints."""
        home = self.servers[site].home
        environment = {**os.environ, "HOME": str(home)}
        return subprocess.run(
            [home / "bin" / command, *words], env=environment, check=True, capture_output=True, text=True
        ).stdout

    def job_states(self) -> dict[str, dict[str, str]]:
        """Return the state of each job of each queue by its id, as PBS calls it."""
        states = {}
        for name, server in self.servers.items():
            kept = Path(server.home, ".fake-pbs")
            if kept.exists():
                found = {path.stem: json.loads(path.read_text())["job_state"] for path in kept.glob("*.job")}
            else:
                jobs = json.loads(self.at_queue(name, "qstat", "-x", "-f", "-F", "json"), strict=False).get("Jobs", {})
                own = {id: job for id, job in jobs.items() if job["Variable_List"]["PBS_O_HOME"] == str(server.home)}
                found = {id: job["job_state"] for id, job in own.items()}
            states[name] = found
        return states

    def write_sites(self) -> Path:
        """Write sites.toml; `more` holds further lines of each site."""
        sites = "\n".join(
            f'[site.{name}]\nssh = "{name}"\ncores = {self.cores[name]}\npython = "{self.python[name]}"\n{more}'
            for name, more in self.more.items()
        )
        path = self.folder / "sites.toml"
        path.write_text(SITES.format(sites=sites, method=self.method, link=self.link))
        return path

    def options(self, model: Path, place: Mapping[str, str], *more: str) -> list[str]:
        wishes = [f"--place={instance}={site}" for instance, site in place.items()]
        return [str(model), "--sites", str(self.write_sites()), "-o", str(self.run_folder), *wishes, *more]

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `xmml-run` or `xmml`."""
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            env=self.environment,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            umask=self.umask,
        )
        self.going.append(process)
        return process

    def end(self, process: subprocess.Popen[str], limit_s: float = RUN_LIMIT_S) -> Ended:
        out, err = process.communicate(timeout=limit_s)
        return Ended(process.returncode, out, err)

    def do(self, *words: str) -> Ended:
        """Start a command and wait for its end."""
        return self.end(self.start(*words))

    def launch(self, model: Path, *more: str, asks: str = "alpha", answers: str = "beta") -> subprocess.Popen[str]:
        """Start a run with the two instances at these sites."""
        return self.start("xmml-run", *self.options(model, {"asks": asks, "answers": answers}, *more))

    # --- looking ----------------------------------------------------------------------------------------------------

    def events(self, what: str | None = None) -> list[dict[str, Any]]:
        found = complete_lines(self.run_folder / "events.jsonl")
        return [event for event in found if what is None or event["what"] == what]

    def await_event(self, what: str, count: int = 1) -> None:
        wait_until(lambda: len(self.events(what)) >= count, f"no event {what}")

    def await_words(self, words: str) -> None:
        """Wait until people were told something about a site."""
        wait_until(
            lambda: any(words in f"{event['about']}: {event['text']}" for event in self.events("site")),
            f"nobody said {words!r}",
        )

    def journal(self, what: str | None = None) -> list[dict[str, Any]]:
        found = complete_lines(self.run_folder / "journal.jsonl")
        return [line for line in found if what is None or line["what"] == what]

    def tear_journal(self) -> None:
        """As when the launcher is killed while it writes a line."""
        with (self.run_folder / "journal.jsonl").open("a") as file:
            file.write('{"time": 1.0, "what": "subm')

    def forget(self, what: str) -> None:
        """As when the launcher is killed before it writes such lines."""
        path = self.run_folder / "journal.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["what"] != what]
        assert len(kept) < len(lines)
        path.write_text("".join(kept))

    def left_behind(self) -> list[str]:
        """What is still at the sites: processes, files, sockets. Staged files are kept for the next run."""
        left = []
        for name, server in self.servers.items():
            left += [f"{name}: process {line}" for line in server.wait_until_nothing_runs().values()]
            left += [f"{name}: {path.name}" for path in server.temporary.glob("xmml-lease.*")]
            work = server.home / "xmml"
            left += [
                f"{name}: {path.relative_to(server.home)}"
                for path in (work.rglob("*") if work.is_dir() else ())
                if path.relative_to(work).parts[0] != "staged"
            ]
        return left

    def kill(self, process: subprocess.Popen[str]) -> None:
        """As when the machine of the launcher loses power: its whole process group at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """Two sites that are reached by ssh, and this machine; at the end nothing may be left at any of them."""
    with Sites(tmp_path) as made:
        yield made
        assert made.left_behind() == []
