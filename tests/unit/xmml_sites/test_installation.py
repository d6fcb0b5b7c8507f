"""What a site says of its Pythons is believed only as far as it can be."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path

import pytest
from xmml_planner.sites import Site
from xmml_sites.installation import InstallationFailed, install
from xmml_sites.ssh.local import LocalTransport

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
