"""Coupled runs over a site that is reached by a real ssh server: all of a workflow are carried out by one process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import greeting
import pytest
from gates import awaits
from processes import command_line, processes
from sshd import Sshd, running_sshd
from waiting import wait_until

from workflows import Workflow, ended

SITES = """
[site.here]
cores = 4
[site.alpha]
ssh = "{name}"
cores = 4
work = "{home}/work"
python = "{python}"
"""
SNAKEFILE = f"""
rule all:
    input: expand("heard/{{number}}.txt", number=[1, 2])
rule couple:
    input: "model.xmml"
    output: "heard/{{number}}.txt"
    log: "heard/{{number}}.log"
    shell: "{greeting.COMMAND} > {{log}} 2>&1"
"""


class Study(Workflow):
    """Two coupled runs with an instance at the site each, which say that they have begun and wait until they may go
    on."""

    def __init__(self, folder: Path, server: Sshd) -> None:
        folder.mkdir()
        gates = folder.parent  # the folder of the model is another one at the site
        self.server, self.go, begun = server, gates / "go", str(gates / "begun")
        self.begun = [Path(begun + number) for number in ("1", "2")]
        super().__init__(
            folder,
            SNAKEFILE,
            *("--xmml-sites", "sites.toml", "--xmml-options=--place world=alpha --place listener=here"),
            env={"XMML_SSH_CONFIG": str(server.config)},
        )
        begin = f"open({begun!r} + me.param('number'), 'w').close()"
        (folder / "model.xmml").write_text(greeting.model(f"{begin}\n{awaits(self.go)}"))
        text = SITES.format(name=server.name, home=server.home, python=sys.executable)
        (folder / "sites.toml").write_text(text)

    def await_begun(self) -> None:
        wait_until(lambda: all(file.exists() for file in self.begun), self.why_not_begun)

    def why_not_begun(self) -> str:
        """What the runs have said by now."""
        logs = [f"{log.name}: {log.read_text()}" for log in sorted(self.folder.glob("heard/*.log"))]
        return "\n".join(["the runs do not begin", *logs])

    def launchers(self) -> list[int]:
        """The processes that carry out runs for the workflow."""
        found = []
        for entry in processes():
            words = command_line(entry).split()
            if "xmml_run" in words or "xmml_run.run_server" in words:
                try:
                    if Path(os.readlink(entry / "cwd")) == self.folder:
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    with running_sshd(tmp_path / "sshd") as server:
        yield Study(tmp_path / "study", server)
        assert server.wait_until_nothing_runs() == {}


def test_all_runs_of_a_workflow_are_carried_out_by_one_process_which_ends_with_it(study: Study) -> None:
    with study.going() as running:
        study.await_begun()
        assert len(study.launchers()) == 1
        study.go.touch()
        status, output = ended(running)
    assert status == 0, output
    assert [(study.folder / f"heard/{number}.txt").read_text() for number in (1, 2)] == ["1\n" * 3, "2\n" * 3]
    for number in (1, 2):
        assert "2 instances ran" in (study.folder / f"heard/{number}.log").read_text()
    wait_until(lambda: study.launchers() == [], "the process stays")


def test_ctrl_c_stops_all_of_them(study: Study) -> None:
    with study.going() as running:
        study.await_begun()
        os.kill(running.pid, signal.SIGINT)
        status, output = ended(running)
    assert status != 0, output
    wait_until(lambda: study.launchers() == [], "the process stays")


def test_runs_whose_process_was_killed_fail_and_are_tried_again_in_another(study: Study) -> None:
    study.env["XMML_SITE_LEASE_S"] = "30"  # what the killed process has begun at the site ends by itself
    with study.going("--retries", "1") as running:
        study.await_begun()
        (killed,) = study.launchers()
        for file in study.begun:
            file.unlink()
        os.kill(killed, signal.SIGKILL)
        study.await_begun()
        (other,) = study.launchers()
        assert other != killed
        study.go.touch()
        status, output = ended(running)
    assert status == 0, output
    assert "xmml-run ended with signal 9" in output
