"""Logging in with a second factor and through a gate works as docs/logging-in.md prints it.

The servers want a key and a code, asked for by PAM as at sites, that is good for one login.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import printed
import pytest
from commands import BIN
from needs import needs, needs_root
from rings import write_ring
from scripts import write_python
from sshd import Sshd, running_sshd
from waiting import RUN_LIMIT_S

pytestmark = [needs_root, needs("ssh", "sshd")]

TWO_FACTORS = (
    "UsePAM yes\nKbdInteractiveAuthentication yes\nAuthenticationMethods publickey,keyboard-interactive:pam\n"
    "PermitRootLogin yes\n"
)
PAM = """\
auth requisite pam_exec.so expose_authtok quiet {check}
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""
#: Takes the code that it is told, once.
CHECK = """#!/bin/sh
code=$(head -c 64 | tr -d '\\0')
[ -s '{file}' ] && [ "$code" = "$(cat '{file}')" ] && : > '{file}'
"""
CODE = "314159"
WITH_CODE, THROUGH_GATE = printed.blocks("logging-in.md", "sshconfig")


class Person:
    """Somebody with a configuration, and with a device that shows codes."""

    def __init__(self, folder: Path, config: str, servers: dict[str, Sshd]) -> None:
        """
        Args:
            config: as printed.
            servers: by the names that the configuration has for them.
        """
        self.folder = folder
        names = {"alpha": "login.alpha.example.org", "gate": "gate.example.org"}
        for host, server in servers.items():
            own = f"127.0.0.1\n  Port {server.port}\n  IdentityFile {server.user_key}\n"
            own += f"  UserKnownHostsFile {server.known_hosts}\n  IdentitiesOnly yes"
            config = config.replace(names[host], own)
        # The name of a socket may have about a hundred characters.
        short = str(next(iter(servers.values())).folder)
        config = config.replace("User me", f"User {getpass.getuser()}").replace("~/.ssh", short)
        self.config = folder / "config"
        self.config.write_text(config)
        self.config.chmod(0o600)
        answer = write_python(folder / "answer", f"print({CODE!r})\n")
        self.environment = {**os.environ, "SSH_ASKPASS": str(answer), "SSH_ASKPASS_REQUIRE": "force"}
        self.sites = folder / "sites.toml"
        (site,) = printed.blocks("logging-in.md", "toml")
        self.sites.write_text(f'{site}python = "{sys.executable}"\n[site.here]\n')

    def ssh(self, *words: str) -> int:
        command = ["ssh", "-F", self.config, *words]
        quiet = subprocess.DEVNULL  # the connection that stays keeps what it is given
        return subprocess.call(command, env=self.environment, stdin=quiet, stdout=quiet, stderr=quiet)

    def xmml(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [BIN / words[0], *words[1:], "--sites", self.sites]
        environment = {**os.environ, "XMML_SSH_CONFIG": str(self.config)}
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
        )


def new_code(server: Sshd) -> None:
    (server.folder / "code").write_text(CODE)


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Sshd]:
    """A server that wants a key and a code."""
    check, file = tmp_path / "check", tmp_path / "strict/code"
    check.write_text(CHECK.format(file=file))
    check.chmod(0o755)
    with running_sshd(tmp_path / "strict", settings=TWO_FACTORS, pam=PAM.format(check=check)) as server:
        yield server


def test_a_run_goes_through_the_connection_that_somebody_has_opened_with_a_code(strict: Sshd, tmp_path: Path) -> None:
    person = Person(tmp_path, WITH_CODE, {"alpha": strict})
    model = write_ring(tmp_path / "ring", {"far": "", "near": ""})
    new_code(strict)
    assert person.ssh("alpha", "true") == 0
    try:
        checked = person.xmml("xmml", "sites", "check", "alpha")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        run = person.xmml("xmml-run", model, "-o", tmp_path / "run", "--place=far=alpha", "--place=near=here")
        assert run.returncode == 0, run.stderr
        assert strict.opened() == 1, "one login for everything"
    finally:
        assert person.ssh("-O", "exit", "alpha") == 0


def test_a_code_is_good_for_one_login_and_without_a_connection_it_is_told_what_to_do(
    strict: Sshd, tmp_path: Path
) -> None:
    person = Person(tmp_path, WITH_CODE, {"alpha": strict})
    new_code(strict)
    assert person.ssh("alpha", "true") == 0
    assert person.ssh("-O", "exit", "alpha") == 0
    assert person.ssh("alpha", "true") != 0, "the code was used"
    checked = person.xmml("xmml", "sites", "check", "alpha")
    assert checked.returncode == 5
    assert "log in once with: ssh alpha" in checked.stdout


def test_a_connection_to_a_gate_that_wants_a_code_leads_to_the_site_behind(strict: Sshd, tmp_path: Path) -> None:
    with running_sshd(tmp_path / "behind", name="behind") as behind:
        person = Person(tmp_path, THROUGH_GATE, {"gate": strict, "alpha": behind})
        new_code(strict)
        assert person.ssh("gate", "true") == 0
        try:
            checked = person.xmml("xmml", "sites", "check", "alpha")
            assert checked.returncode == 0, checked.stdout + checked.stderr
            assert (strict.opened(), behind.opened() > 0) == (1, True)
        finally:
            assert person.ssh("-O", "exit", "gate") == 0
