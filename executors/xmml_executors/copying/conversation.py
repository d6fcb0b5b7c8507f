"""What this end does when ssh has been started: agrees with the remote end, gives or takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmml_executors.copying.agreement import Refused, Wish, agree
from xmml_executors.copying.channel import Broken, Stopped
from xmml_executors.copying.failure import CopyFailed
from xmml_executors.copying.messages import Malformed
from xmml_executors.copying.place import Place
from xmml_executors.copying.progress import Progress, Report
from xmml_executors.copying.settings import Settings, Way
from xmml_executors.copying.source import Source
from xmml_executors.copying.ssh import NoRemoteEnd, RemoteEnd
from xmml_executors.copying.target import NoRoom, Target
from xmml_executors.copying.tree import layout


def converse(
    remote: RemoteEnd, sources: Sequence[Place], destination: Place, settings: Settings, progress: Progress
) -> Report:
    """Copies with the remote end, which need not have begun yet; returns what was done.

    Raises:
        CopyFailed: as of `session.copy`.
    """
    try:
        try:
            return _over(remote, sources, destination, settings, progress)
        except Broken as error:
            raise remote.lost(error) from error
    except Refused as error:
        raise CopyFailed(f"{remote.host}: {error}") from error
    except (Broken, NoRemoteEnd, NoRoom, Stopped) as error:
        raise CopyFailed(str(error)) from error
    except Malformed as error:
        text = f"{remote.host} does not keep to the protocol: {error}; is the same xMML installed there?"
        raise CopyFailed(text) from error
    except OSError as error:
        raise CopyFailed(f"{error.filename or destination}: {error.strerror or error}") from error


def _over(
    remote: RemoteEnd, sources: Sequence[Place], destination: Place, settings: Settings, progress: Progress
) -> Report:
    fetching = destination.host is None
    here = layout(destination.path, len(sources)) if fetching else None
    wish = Wish(fetching, [source.path for source in sources], destination.path, settings.compare)
    channel = agree(remote, wish, settings, progress)
    try:
        if here is not None:
            report = Target(channel, here, progress, settings.compare).run()
        else:
            report = Source(channel, [Path(source.path).expanduser() for source in sources], progress).run()
    except BaseException:
        channel.close()
        raise
    report.way, report.streams = channel.way.words, channel.streams
    # Both ends have said that everything is stored: nothing that could still be waited for matters.
    if here is None:
        channel.leave()
        remote.leave()
    else:
        channel.close()  # the last word was ours, and has come
        if channel.way != Way.SSH:
            remote.leave()
    return report
