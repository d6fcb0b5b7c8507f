"""A copy from its beginning to its end, as seen from here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xmml_executors.copying.agreement import Refused, Wish, agree
from xmml_executors.copying.channel import Broken, Stopped
from xmml_executors.copying.messages import Malformed
from xmml_executors.copying.path_channel import PathChannel
from xmml_executors.copying.place import Place
from xmml_executors.copying.progress import Progress, Report
from xmml_executors.copying.settings import Settings
from xmml_executors.copying.source import Source
from xmml_executors.copying.ssh import NoRemoteEnd, RemoteEnd
from xmml_executors.copying.target import NoRoom, Target
from xmml_executors.copying.tree import layout


class CopyFailed(Exception):
    """Nothing, or not everything, could be copied; the text says why and what to do."""


class CopyUsage(CopyFailed):
    """What was asked for cannot be."""


def copy(sources: Sequence[Place], destination: Place, settings: Settings, progress: Progress) -> Report:
    """Copies files and folders from or to one host.

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
        with RemoteEnd(host, settings.ssh, settings.remote) as remote:
            try:
                report = _over(remote, sources, destination, settings, progress)
            except Broken as error:
                raise remote.lost(error) from error
    except Refused as error:
        raise CopyFailed(f"{host}: {error}") from error
    except (Broken, NoRemoteEnd, NoRoom, Stopped) as error:
        raise CopyFailed(str(error)) from error
    except Malformed as error:
        raise CopyFailed(f"{host} does not keep to the protocol: {error}; is the same xMML installed there?") from error
    except OSError as error:
        raise CopyFailed(f"{error.filename or destination}: {error.strerror or error}") from error
    return replace(report, seconds=time.monotonic() - begin)


def _host(sources: Sequence[Place], destination: Place) -> str:
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


def _over(
    remote: RemoteEnd, sources: Sequence[Place], destination: Place, settings: Settings, progress: Progress
) -> Report:
    fetching = destination.host is None
    here = layout(destination.path, len(sources)) if fetching else None
    wish = Wish(fetching, [source.path for source in sources], destination.path, settings.compare)
    channel, way = agree(remote.channel, wish, remote.host, settings, progress)
    try:
        if here is not None:
            report = Target(channel, here, progress, settings.compare).run()
        else:
            report = Source(channel, [Path(source.path).expanduser() for source in sources], progress).run()
        report.way = way.words
        if isinstance(channel, PathChannel):
            report.streams = channel.streams
        return report
    finally:
        channel.close()
