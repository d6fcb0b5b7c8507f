"""The program `mto` at a site: it comes from here once, or the site has its own."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest
from xmml_native import __version__, mto
from xmml_sites.program import ProgramUnusable, install_program
from xmml_sites.ssh import RemoteFileError
from xmml_sites.ssh.local import LocalTransport


class SiteHere:
    """A site that is this machine, or says that it is another kind."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.store, self.run, self.programs = folder / "staged", folder / "runs/r-1", folder / "bin"
        self.run.mkdir(parents=True)
        self.programs.mkdir()
        patch.setenv("PATH", f"{self.programs}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def has(self, name: str, says: str) -> None:
        """Give the site a program."""
        program = self.programs / name
        program.write_text(f"#!/bin/sh\necho {says}\n")
        program.chmod(0o755)

    def bring(self) -> Path:
        async def work() -> None:
            transport = LocalTransport("alpha")
            try:
                await install_program(transport, str(self.run), str(self.store), "python3")
            finally:
                await transport.close()

        asyncio.run(work())
        return self.run / "mto"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteHere:
    return SiteHere(tmp_path, monkeypatch)


def test_it_comes_from_here_once_and_takes_no_room_in_later_runs(here: SiteHere) -> None:
    program = here.bring()
    assert program.read_bytes() == mto.PROGRAM.read_bytes()
    (kept,) = here.store.iterdir()
    program.unlink()
    kept_before = kept.stat().st_ino
    assert here.bring().stat().st_ino == kept_before


def test_a_site_of_another_kind_uses_its_own_of_the_same_release(here: SiteHere) -> None:
    here.has("uname", "Linux riscv64")
    here.has("mto", f"mto {__version__}")
    assert here.bring().resolve() == here.programs / "mto"
    assert not here.store.exists()


def test_a_site_of_another_kind_with_another_release_is_told_what_to_install(here: SiteHere) -> None:
    here.has("uname", "Linux riscv64")
    here.has("mto", "mto 0.0.1")
    with pytest.raises(
        ProgramUnusable, match=rf"site alpha: it has mto 0\.0\.1, and .*: install xMML {__version__} there"
    ):
        here.bring()


def test_a_site_of_another_kind_with_none_is_told_what_to_install(here: SiteHere) -> None:
    here.has("uname", "Linux riscv64")
    with pytest.raises(
        ProgramUnusable, match=rf"site alpha: it is Linux riscv64, and .*: install xMML {__version__} there"
    ):
        here.bring()


def test_one_that_cannot_be_executed_is_named_with_what_to_do(here: SiteHere) -> None:
    here.store.mkdir()
    kept = here.store / hashlib.sha256(mto.PROGRAM.read_bytes()).hexdigest()
    kept.write_text("exit 126\n")
    kept.chmod(0o755)
    with pytest.raises(
        ProgramUnusable, match=r"runs/r-1/mto cannot be executed there: .*; name another folder with work ="
    ):
        here.bring()


def test_one_that_fails_for_another_reason_is_told_with_its_status(here: SiteHere) -> None:
    here.store.mkdir()
    kept = here.store / hashlib.sha256(mto.PROGRAM.read_bytes()).hexdigest()
    kept.write_text("#!/bin/sh\necho no more processes >&2\nexit 3\n")
    kept.chmod(0o755)
    with pytest.raises(
        ProgramUnusable, match=r"runs/r-1/mto --version fails there with status 3: no more processes; run"
    ):
        here.bring()


def test_a_folder_into_which_it_cannot_be_put_is_named(here: SiteHere) -> None:
    here.bring().unlink()
    (kept,) = here.store.iterdir()
    (here.run / "mto" / kept.name).mkdir(parents=True)  # in the way of a link, and of a copy
    with pytest.raises(RemoteFileError, match=r"putting mto into .*runs/r-1 failed: cp: "):
        here.bring()
