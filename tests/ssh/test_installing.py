"""`xmml sites install`: xMML is at a site after one command, though the site has no internet."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import BIN
from needs import needs
from rings import write_ring
from sshd import Sshd, running_sshd
from waiting import RUN_LIMIT_S

import xmml

pytestmark = needs("ssh", "sshd")

#: A Python that says of itself what a test wants.
CLAIMS = "#!/bin/sh\necho 'xmml-python {}'\n"
CLAIMED = {
    "python": "/claimed/python3",
    "version": [3, 11],
    "machine": os.uname().machine,
    "glibc": 99,
    "has_pip": True,
}


class There:
    """A site with the Python that runs the tests, as another one."""

    def __init__(self, server: Sshd, folder: Path, cache: Path) -> None:
        self.server, self.folder = server, folder
        self.programs = server.home / "bin"
        self.programs.mkdir()
        (server.home / ".bash_profile").write_text("PATH=$HOME/bin:$PATH\n")  # a login shell begins anew with it
        self.sites = folder / "sites.toml"
        self.environment = {**os.environ, "XMML_SSH_CONFIG": str(server.config), "XDG_CACHE_HOME": str(cache)}
        self.say()

    def say(self, lines: str = "") -> None:
        self.sites.write_text(f'[site.site]\nssh = "site"\ncores = 2\n{lines}\n[site.here]\n')

    def give_python(self) -> None:
        (self.programs / f"python3.{sys.version_info.minor}").symlink_to(Path(sys.base_prefix) / "bin/python3")

    def claim(self, **facts: object) -> None:
        for minor in range(11, 16):
            (self.programs / f"python3.{minor}").write_text(CLAIMS.format(json.dumps(CLAIMED | facts)))
            (self.programs / f"python3.{minor}").chmod(0o755)
        for name in ("python3", "python"):
            (self.programs / name).write_text("#!/bin/sh\nexit 1\n")
            (self.programs / name).chmod(0o755)

    def xmml(self, *words: str | Path, status: int = 0) -> str:
        done = subprocess.run(
            [BIN / words[0], *words[1:], "--sites", self.sites],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def install(self, *words: str, status: int = 0) -> str:
        return self.xmml("xmml", "sites", "install", "site", *words, status=status)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where wheels are made, once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def there(tmp_path: Path, cache: Path) -> Iterator[There]:
    with running_sshd(tmp_path / "server") as server:
        yield There(server, tmp_path, cache)


def test_xmml_is_installed_and_models_run_there(there: There, tmp_path: Path) -> None:
    there.give_python()
    said = there.install()
    python = "~/xmml/python/bin/python"
    assert f"xMML {xmml.__version__} is installed ({python})" in said
    assert f'set python = "{python}"' in said
    there.say(f'python = "{python}"')
    assert "is there already" in there.install(), "what is done is not done again"
    assert "xmml" in there.xmml("xmml", "sites", "check", "site")
    model = write_ring(tmp_path / "ring", {"far": "", "near": ""})
    there.xmml("xmml-run", model, "-o", tmp_path / "run", "--place=far=site", "--place=near=here")
    copied = there.server.home / "copied.xmml"
    ssh, remote = f"ssh -F {there.server.config}", there.server.home / "xmml/python/bin/xmml"
    subprocess.run([BIN / "xmml", "cp", "--ssh", ssh, "--remote", remote, model, f"site:{copied}"], check=True)
    assert copied.read_text() == model.read_text()


def test_a_dry_run_says_what_would_be_done_and_leaves_nothing(there: There) -> None:
    there.give_python()
    there.say('setup = ["export DATA=data  # for all"]')
    said = there.install("--dry-run")
    assert "would make ~/xmml/python/bin/python" in said
    assert "numpy-" in said
    assert not (there.server.home / "xmml").exists()


def test_a_dry_run_says_only_what_is_missing(there: There, cache: Path) -> None:
    there.give_python()
    there.install("--dry-run")
    environment = there.server.home / "xmml/python"
    venv.create(environment, symlinks=True)
    (environment / "wheels").mkdir()
    wheels = [wheel for wheel in cache.rglob("*.whl") if wheel.name.startswith(("lxml-", "networkx-"))]
    for wheel in wheels:
        shutil.copy(wheel, environment / "wheels")
    said = there.install("--dry-run")
    (line,) = [line for line in said.splitlines() if "would" in line]
    sent, found = map(int, re.findall(r"^site: (\d+) of (\d+) wheels would be sent ", line)[0])
    assert found - sent == len(wheels) > 0
    assert line.endswith(", and all installed in ~/xmml/python/bin/python:")
    assert not any(wheel.name in said for wheel in wheels)
    assert "numpy-" in said


def test_a_site_without_a_new_python_is_told_which_it_has(there: There) -> None:
    there.claim(version=[3, 9])
    assert "site has no Python 3.11 or newer (only 3.9): name a module that has it" in there.install(status=5)


def test_a_site_of_another_architecture_is_told(there: There) -> None:
    there.claim(machine="riscv64")
    assert "and the site has Python 3.11 on riscv64: build it there" in there.install(status=5)


def test_a_python_that_cannot_make_environments_is_told(there: There) -> None:
    there.claim(version=list(sys.version_info[:2]), has_pip=False)
    assert "cannot make a virtual environment with pip (on Debian: python3-venv" in there.install(status=5)


def test_a_full_disk_is_told_before_anything_is_sent(there: There) -> None:
    there.give_python()
    (there.programs / "df").write_text("#!/bin/sh\necho head\necho disk 1 1 2048 1% /\n")
    (there.programs / "df").chmod(0o755)
    assert "has 2 MB free, and about" in there.install(status=5)
    assert not (there.server.home / "xmml").exists()


def test_a_python_of_the_system_is_left_alone(there: There) -> None:
    there.give_python()
    (there.server.home / "own/bin").mkdir(parents=True)
    there.say('python = "~/own/bin/python3"')
    assert "python = ~/own/bin/python3 of site is no virtual environment" in there.install(status=5)


def test_an_environment_of_another_python_is_told_before_anything_is_sent(there: There) -> None:
    there.give_python()
    environment = there.server.home / "xmml/python"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text("home = /apps/python\nversion = 3.10.13\n")
    said = there.install(status=5)
    assert "~/xmml/python at site is a virtual environment of Python 3.10, and wheels are for Python 3." in said
    assert "remove that folder there" in said
    assert not (environment / "wheels").exists()


def test_a_site_that_there_is_not_is_told(there: There) -> None:
    assert "there is no site nosuch" in there.xmml("xmml", "sites", "install", "nosuch", status=2)
