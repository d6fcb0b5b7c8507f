"""What runs share that one process carries out, when that ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from site_here import site_at
from xmml_executors.launch.relays.entries import RelayEntries
from xmml_executors.outcome import SiteError
from xmml_sites.ssh import ConnectionLost


def test_a_folder_that_may_be_left_at_a_site_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost() -> None:
        raise ConnectionLost("here", "the network is away")

    async def work() -> None:
        site = site_at(tmp_path)
        monkeypatch.setattr(site, "clean", lost)
        entries = RelayEntries(site.login, None, lambda *_: None)
        entries._places["any"] = site
        try:
            with pytest.raises(SiteError, match=rf"here: {site.folder} may be left there: .*the network is away"):
                await entries.close()
        finally:
            await site.transport.close()

    asyncio.run(work())
