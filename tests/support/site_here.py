"""This machine as a site of a run."""

from __future__ import annotations

import sys
from pathlib import Path

from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.login import SiteLogin
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.open_folder import OpenFolder
from xmml_native import mto
from xmml_planner.sites import Site
from xmml_sites.program import NAME as PROGRAM
from xmml_sites.ssh.local import LocalTransport


def site_at(folder: Path, name: str = "here") -> RunSite:
    """Return this machine as a site whose run has this folder."""
    site = Site(name, work=str(folder), python=sys.executable)
    at = RunSite(site, "r1", Journal(OpenFolder(folder)), SiteLogin(site, LocalTransport(name)))
    at.folder = str(folder)
    (folder / "relays").mkdir(exist_ok=True)
    if not (folder / PROGRAM).exists():
        (folder / PROGRAM).symlink_to(mto.PROGRAM)
    return at
