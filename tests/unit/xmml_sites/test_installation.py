"""What a site has already, and how far what it says of its Pythons is believed."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from xmml_planner.sites import Site
from xmml_sites.installation import InstallationFailed, _has_xmml, install
from xmml_sites.ssh.local import LocalTransport

import xmml

CLAIMED = {"python": "/claimed/python3", "version": [3, 11], "machine": "x86_64", "glibc": 36, "has_pip": True}


@pytest.mark.parametrize(
    "lie",
    [
        {"machine": "/../../../elsewhere"},
        {"machine": "\033]0;owned\a"},
        {"machine": 7},
        {"version": [4, "/../../../elsewhere"]},
        {"version": [3, "11"]},
        {"version": []},
        {"glibc": 10**9},
        {"glibc": None},
        {"python": None},
    ],
    ids=str,
)
def test_what_no_python_is_makes_no_folder_here(
    tmp_path: Path, lie: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    lying, cache = tmp_path / "bin/bash", tmp_path / "home/cache/wheels"
    lying.parent.mkdir()
    lying.write_text(f"#!/bin/sh\necho xmml-python {shlex.quote(json.dumps(CLAIMED | lie))}\necho xmml-python [\n")
    lying.chmod(0o755)
    cache.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(lying.parent), prepend=":")

    async def tried() -> None:
        transport = LocalTransport("alpha")
        try:
            await install(Site("alpha", ssh="alpha"), transport, cache=cache, is_dry_run=True)
        finally:
            await transport.close()

    with pytest.raises(InstallationFailed, match="alpha has no Python"):
        asyncio.run(tried())
    assert {each.name for each in tmp_path.rglob("*")} == {"bin", "home", "bash", "cache", "wheels"}


@pytest.mark.parametrize("ssh", [None, "alpha"], ids=["this machine", "by ssh"])
def test_nothing_is_to_be_done_where_the_python_that_the_file_of_sites_names_has_xmml(
    tmp_path: Path, ssh: str | None
) -> None:
    site, told = Site("alpha", ssh=ssh, python=sys.executable, work=str(tmp_path / "work")), []

    async def tried() -> None:
        transport = LocalTransport("alpha")
        try:
            told.append(await install(site, transport, cache=tmp_path / "cache", is_dry_run=True))
        finally:
            await transport.close()

    asyncio.run(tried())
    assert (told[0].was_there, told[0].python, told[0].is_named) == (True, sys.executable, True)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the packages of the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    here = sysconfig.get_path("purelib")
    (packages / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return folder


def has_xmml(environment: Path) -> bool:
    async def look() -> bool:
        transport = LocalTransport("alpha")
        try:
            return await _has_xmml(Site("alpha", ssh="alpha", python=f"{environment}/bin/python"), transport)
        finally:
            await transport.close()

    return asyncio.run(look())


def test_an_environment_that_somebody_else_has_made_counts_if_it_has_the_same_version(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert has_xmml(environment)
    monkeypatch.setattr(xmml, "__version__", "9.9")
    assert not has_xmml(environment)


@pytest.mark.parametrize("left", ["xmml-wheels", "wheels"])
def test_one_that_an_installation_has_made_or_begun_is_compared_by_its_wheels(environment: Path, left: str) -> None:
    (environment / left).touch()
    assert not has_xmml(environment)
    (environment / left).unlink()


def test_a_python_without_xmml_does_not_count(tmp_path: Path) -> None:
    assert not has_xmml(tmp_path)
