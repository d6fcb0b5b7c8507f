"""Two programs at two hosts with firewalls, coupled by hand: docs/relay.md as printed, in two terminals."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import printed
import pytest
from needs import needs
from waiting import wait_until
from wan import Machine, MachineProcess, Site, Wan, why_not
from wan.ssh import sshd_on
from xmml_native import mto

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    needs("openssl"),
    pytest.mark.timeout(300),
]

PAGE = "relay.md"
ALPHA = Site("login.alpha.org", open_ports=(40001,))
BETA = Site("beta")


def terminals() -> list[list[str]]:
    """What the page says to type: the lines of its blocks of shell, by terminal."""
    return [block.splitlines() for block in printed.blocks(PAGE, "sh")]


class Terminal:
    """A shell on a machine; `shown` is what has been printed there."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._screen = folder / "screen"
        tools = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
        with self._screen.open("w") as screen:
            self.shell: MachineProcess = machine.start(
                ["bash"], stdin=subprocess.PIPE, stdout=screen, stderr=screen, text=True, cwd=folder, env=environment
            )
        self._lines = 0

    def type(self, line: str) -> None:
        assert self.shell.stdin is not None
        self._lines += 1
        self.shell.stdin.write(f"{line}\n")
        self.shell.stdin.flush()

    def do(self, line: str) -> None:
        """Type a line, wait for the prompt, and see that the command has succeeded."""
        assert self.succeeds(line), f"{line}: {self.shown}"

    def succeeds(self, line: str) -> bool:
        """Type a line and wait for the prompt."""
        self.type(line)
        self.type(f'echo "status $? of line {self._lines}"')
        mark = f" of line {self._lines - 1}"
        wait_until(lambda: mark in self.shown, lambda: f"{line}: {self.shown}")
        status = next(each for each in self.shown.splitlines() if each.endswith(mark))
        return status.startswith("status 0 ")

    @property
    def shown(self) -> str:
        return self._screen.read_text()

    def close(self) -> None:
        self.shell.kill()
        self.shell.communicate()


@contextmanager
def terminal(machine: Machine, folder: Path) -> Iterator[Terminal]:
    folder.mkdir()
    made = Terminal(machine, folder)
    try:
        yield made
    finally:
        made.close()


def test_two_terminals_and_the_page_suffice(tmp_path: Path) -> None:
    with (
        Wan([ALPHA, BETA], rtt_s=0.02, rate_bit_s=1e9) as wan,
        terminal(wan["login.alpha.org"].login, tmp_path / "alpha") as alpha,
        terminal(wan["beta"].login, tmp_path / "beta") as beta,
    ):
        couple(alpha, beta, tmp_path, *terminals())


@needs("sshd", "ssh")
@pytest.mark.parametrize("option", ["-L", "-R"], ids=["from who dials", "from who is dialled"])
def test_a_port_that_ssh_forwards_is_enough_for_a_link(option: str, tmp_path: Path) -> None:
    """The firewall of one site lets ssh in and nothing else; that of the other lets nobody in."""
    from_alpha = option == "-R"
    ports: tuple[tuple[int, ...], tuple[int, ...]] = ((), (22,)) if from_alpha else ((22,), ())
    sites = [Site("login.alpha.org", open_ports=ports[0]), Site("login.beta.org", open_ports=ports[1])]
    (forward,) = re.findall(rf"`(ssh -f [^`]* {option} [^`]*)`", (printed.DOCS / PAGE).read_text())
    (link,) = re.findall(r"`(--link 127.0.0.1:\d+)`", (printed.DOCS / PAGE).read_text())
    first, second = terminals()
    second[0] = second[0].replace("--link login.alpha.org:40001", link)
    assert link in second[0]
    with (
        Wan(sites, rtt_s=0.02, rate_bit_s=1e9) as wan,
        terminal(wan["login.alpha.org"].login, tmp_path / "alpha") as alpha,
        terminal(wan["login.beta.org"].login, tmp_path / "beta") as beta,
    ):
        here, there = (alpha, "login.beta.org") if from_alpha else (beta, "login.alpha.org")
        with sshd_on(wan[there].login, wan[there].address, tmp_path) as config:
            config.write_text(config.read_text().replace("Host there", f"Host {there}"))
            here.do(f'ssh() {{ command ssh -F {config} "$@"; }}')
            here.do(forward)
            couple(alpha, beta, tmp_path, first, second)


def couple(alpha: Terminal, beta: Terminal, folder: Path, first: list[str], second: list[str]) -> None:
    """Type the lines of the page in two terminals; the programs print what they should."""
    printed.write(PAGE, folder / "alpha")
    for line in first[:-1]:
        alpha.do(line)
    alpha.type(first[-1])
    wait_until(lambda: "start by hand" in alpha.shown, lambda: alpha.shown)
    for name in ("polar.secret", "polar.relay-key", "ice.py"):
        shutil.copy2(folder / "alpha" / name, folder / "beta" / name)
    for line in second:
        if line.startswith("mto status"):
            # Whoever sits there looks again until it is so: the relay has only just been started.
            wait_until(
                lambda line=line: beta.succeeds(line) and "sites in reach: alpha beta" in beta.shown,
                lambda: beta.shown + alpha.shown,
            )
        else:
            beta.do(line)
    wait_until(lambda: "results: " in alpha.shown, lambda: alpha.shown)
    alpha.do("mto stop --site alpha")
    assert [line for line in beta.shown.splitlines() if "ice covers" in line] == [
        "ice covers 10%",
        "ice covers 4%",
        "ice covers 2%",
        "ice covers 6%",
        "ice covers 14%",
    ]
    assert alpha.shown.count("the ocean has") == 5
    # What is printed for other hosts is what the page says, apart from folders.
    assert "XMML_COORDINATOR='relay:/alpha/coordinator?run=polar'" in alpha.shown


def test_an_instance_by_hand_that_fails_ends_the_run_with_its_words(tmp_path: Path) -> None:
    first, second = terminals()
    with (
        Wan([ALPHA, BETA], rtt_s=0.02, rate_bit_s=1e9) as wan,
        terminal(wan["login.alpha.org"].login, tmp_path / "alpha") as alpha,
        terminal(wan["beta"].login, tmp_path / "beta") as beta,
    ):
        printed.write(PAGE, tmp_path / "alpha")
        for line in first[:-1]:
            alpha.do(line)
        alpha.type(first[-1])
        wait_until(lambda: "start by hand" in alpha.shown, lambda: alpha.shown)
        for name in ("polar.secret", "polar.relay-key"):
            shutil.copy2(tmp_path / "alpha" / name, tmp_path / "beta" / name)
        broken = (tmp_path / "alpha" / "ice.py").read_text().replace("cover = min", 'raise ValueError("it melts")  #')
        (tmp_path / "beta" / "ice.py").write_text(broken)
        beta.do(second[0])
        wait_until(lambda: "alpha" in reach(wan["beta"].login), "the relays are linked")
        beta.do(second[2])
        beta.type(second[3])
        wait_until(lambda: "ice failed" in alpha.shown, lambda: alpha.shown)
        assert "it melts" in alpha.shown
        wait_until(lambda: "it melts" in beta.shown, lambda: beta.shown)
        alpha.do("true")


def reach(machine: Machine) -> str:
    """The sites in reach of the relay of beta; none while it is only being started."""
    try:
        status = machine.run([str(mto.PROGRAM), "status", "--site", "beta"]).stdout
    except AssertionError:
        return ""
    return status.partition("sites in reach:")[2].partition("\n")[0]
