"""The remote end of a copy, which ssh has started: takes the request over its standard streams."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from xmml_sites.transfer.ends import NoRoom, give, take
from xmml_sites.transfer.layout import layout
from xmml_sites.transfer.message_stream import ConnectionBroken, PeerFailed, PipeMessageStream
from xmml_sites.transfer.messages import MAGIC, Malformed, MessageKind, pack
from xmml_sites.transfer.negotiation import Refused, Responder
from xmml_sites.transfer.path_message_stream import PathMessageStream
from xmml_sites.transfer.progress import NoProgress
from xmml_sites.transfer.switching import SwitchingChannel

#: After the end of the ssh connection, which comes last, this end has so long to finish [s].
_GRACE_S = 3.0


def serve(reading: BinaryIO, writing: BinaryIO) -> int:
    """Take part in one copy; return the exit status.

    Failures are reported to the other end, which shows them, as long as it can be reached.
    """
    writing.write(MAGIC)
    writing.flush()
    over_ssh = PipeMessageStream(reading, writing)
    channel: PipeMessageStream | PathMessageStream | SwitchingChannel = over_ssh
    where = ""
    try:
        answering = Responder(over_ssh, lambda: _end_with(over_ssh))
        request = answering.await_request()
        where = request.destination
        target = None if request.gives else layout(request.destination, len(request.paths))
        channel = answering.follow()
        if target is not None:
            take(channel, target, NoProgress(), compare=request.compare)
        else:
            give(channel, [Path(path).expanduser() for path in request.paths], NoProgress())
    except (Refused, OSError, Malformed) as error:
        with suppress(ConnectionBroken):
            channel.send(pack(MessageKind.REFUSED, _in_words(error, where)))
    except (ConnectionBroken, NoRoom, PeerFailed):
        return 1
    finally:
        if channel is not over_ssh:
            channel.close()
    return 0


def _in_words(error: Exception, where: str) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or where}: {error.strerror or error}"
    return f"what was heard here cannot be: {error}" if isinstance(error, Malformed) else str(error)


def _end_with(over_ssh: PipeMessageStream) -> None:
    """Whoever started this end is gone when the ssh connection is: nobody else would end it."""

    def watch() -> None:
        over_ssh.wait_for_end()
        threading.Event().wait(_GRACE_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
