"""Files from a site that lies about them."""

from __future__ import annotations

import asyncio
import io
import tarfile
from collections.abc import Coroutine, Iterator
from pathlib import Path

import pytest
from xmml_sites.ssh import RemoteFileError, bulk_transfer
from xmml_sites.ssh.local import LocalTransport


def archive(name: str, **headers: str) -> bytes:
    """Return an archive with one short file, and these headers of pax about it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as opened:
        facts = tarfile.TarInfo(name)
        facts.pax_headers, facts.size = headers, 512
        opened.addfile(facts, io.BytesIO(b"0\n".ljust(512, b"\0")))
    return stream.getvalue()


def test_holes_of_a_file_do_not_fill_the_memory(tmp_path: Path) -> None:
    local = tmp_path / "file"
    holes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "/file"}
    data = archive("/file", **holes, **{"GNU.sparse.realsize": str(2**45)})
    bulk_transfer._unpack(data, {"/file": local})
    assert not local.exists()
    bulk_transfer._unpack(archive("/file"), {"/file": local})
    assert local.exists()


def test_parts_of_a_file_of_any_size_are_made_one_after_the_other() -> None:
    made = 0

    async def never() -> None:
        await asyncio.Event().wait()

    def parts() -> Iterator[Coroutine[object, object, None]]:
        nonlocal made
        for _ in range(10**6):
            made += 1
            yield never()

    async def begun() -> None:
        doing = asyncio.ensure_future(bulk_transfer._side_by_side(parts()))
        await asyncio.sleep(0.05)
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)

    asyncio.run(begun())
    assert made == bulk_transfer.SIDE_BY_SIDE


@pytest.mark.parametrize(
    ("command", "says", "told"),
    [
        *(("stat", size, "reading") for size in ("9" * 19, "-1", "\u00b2", "no size")),
        ("tar", "nonsense", "there failed: no archive has come"),
    ],
)
def test_what_no_file_can_be_is_an_error_that_names_the_file(
    tmp_path: Path, command: str, says: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lying = tmp_path / "bin" / command
    lying.parent.mkdir()
    lying.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}'\n")
    lying.chmod(0o755)
    (tmp_path / "there").write_text("something")
    monkeypatch.setenv("PATH", str(lying.parent), prepend=":")

    async def fetched() -> None:
        transport = LocalTransport("alpha")
        try:
            await transport.get(str(tmp_path / "there"), tmp_path / "here")
        finally:
            await transport.close()

    with pytest.raises(RemoteFileError, match=told):
        asyncio.run(fetched())
