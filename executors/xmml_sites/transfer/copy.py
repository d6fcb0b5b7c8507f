"""A copy from its beginning to its end, as seen from here.

Loads little: the remote end's start takes longest, and what else a copy needs is loaded meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xmml_sites.transfer.failure import CopyFailed, CopyUsage
from xmml_sites.transfer.file_location import FileLocation
from xmml_sites.transfer.progress import Progress, Report
from xmml_sites.transfer.remote_end import NoRemoteEnd, RemoteEnd
from xmml_sites.transfer.settings import Settings


def copy(sources: Sequence[FileLocation], destination: FileLocation, settings: Settings, progress: Progress) -> Report:
    """Copy files and folders from or to one host.

    Returns:
        What was done; files that failed by themselves are in it.

    Raises:
        CopyUsage: it is not one host that is copied from or to, or two sources have one name.
        CopyFailed: the copy did not come to its end. What has come stays under provisional names, and the next attempt
            sends only the rest.
    """
    host = _host(sources, destination)
    begin = time.monotonic()
    try:
        remote = RemoteEnd(host, settings.ssh, settings.remote)
    except NoRemoteEnd as error:
        raise CopyFailed(str(error)) from error
    with remote:
        from xmml_sites.transfer.client import converse

        progress.begin()
        report = converse(remote, sources, destination, settings, progress)
    return replace(report, seconds=time.monotonic() - begin)


def _host(sources: Sequence[FileLocation], destination: FileLocation) -> str:
    origins = {source.host for source in sources}
    if len(origins) != 1:
        raise CopyUsage("all sources must be at one place: here, or at one host")
    (origin,) = origins
    if origin is not None and destination.host is not None:
        raise CopyUsage(f"both sides are at hosts; copy from one of them: ssh {origin} xmml cp ... {destination}")
    host = origin or destination.host
    if host is None:
        raise CopyUsage("neither side is at a host (HOST:PATH); within this machine cp does it")
    names = [Path(source.path).name for source in sources]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise CopyUsage(f"two sources are called {doubled}: one copy would replace the other")
    return host
