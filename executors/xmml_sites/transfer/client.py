"""The local end of a copy: agrees with the remote end on what is copied and how, then gives or takes the files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmml_sites.transfer.ends import ListingTooLarge, NoRoom, give, take
from xmml_sites.transfer.failure import CopyFailed
from xmml_sites.transfer.file_location import FileLocation
from xmml_sites.transfer.layout import layout
from xmml_sites.transfer.message_stream import ConnectionBroken, PeerFailed
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.negotiation import CopyRequest, Refused, agree
from xmml_sites.transfer.progress import Progress, Report
from xmml_sites.transfer.remote_end import NoRemoteEnd, RemoteEnd
from xmml_sites.transfer.settings import Settings, TransferMethod


def converse(
    remote: RemoteEnd,
    sources: Sequence[FileLocation],
    destination: FileLocation,
    settings: Settings,
    progress: Progress,
) -> Report:
    """Copy with the remote end, which need not have begun yet; return what was done.

    Raises:
        CopyFailed: as in `copy.copy`.
    """
    try:
        try:
            return _over(remote, sources, destination, settings, progress)
        except ConnectionBroken as error:
            raise remote.lost(error) from error
    except Refused as error:
        raise CopyFailed(f"{remote.host}: {error}") from error
    except ListingTooLarge as error:
        remote.kill()
        advice = "copy the folders there one after the other, or grant more by --listing-memory"
        raise CopyFailed(f"{remote.host}: {error}; {advice}") from error
    except (ConnectionBroken, NoRemoteEnd, NoRoom, PeerFailed) as error:
        raise CopyFailed(str(error)) from error
    except Malformed as error:
        text = f"{remote.host} does not keep to the protocol: {error}; is the same xMML installed there?"
        raise CopyFailed(text) from error
    except OSError as error:
        raise CopyFailed(f"{error.filename or destination}: {error.strerror or error}") from error


def _over(
    remote: RemoteEnd,
    sources: Sequence[FileLocation],
    destination: FileLocation,
    settings: Settings,
    progress: Progress,
) -> Report:
    fetching = destination.host is None
    here = layout(destination.path, len(sources)) if fetching else None
    request = CopyRequest(fetching, [source.path for source in sources], destination.path, settings.compare)
    channel = agree(remote, request, settings, progress)
    try:
        if here is not None:
            named = [source.path for source in sources]
            report = take(
                channel,
                here,
                progress,
                compare=settings.compare,
                sources=named,
                listing_memory_b=settings.listing_memory_b,
            )
        else:
            report = give(channel, [Path(source.path).expanduser() for source in sources], progress)
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
        if channel.way != TransferMethod.SSH:
            remote.leave()
    return report
