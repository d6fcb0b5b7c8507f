"""The end of a copy that ssh has started: does what it is told over its standard streams."""

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
    """Takes part in one copy; returns the exit status.

    What goes wrong is told to the other end as long as that can be reached; it tells people.
    """
    writing.write(MAGIC)
    writing.flush()
    over_ssh = PipeMessageStream(reading, writing)
    channel: PipeMessageStream | PathMessageStream | SwitchingChannel = over_ssh
    where = ""
    try:
        answering = Responder(over_ssh, lambda: _end_with(over_ssh))
        wish = answering.await_wish()
        where = wish.destination
        target = None if wish.gives else layout(wish.destination, len(wish.paths))
        channel = answering.follow()
        if target is not None:
            take(channel, target, NoProgress(), compare=wish.compare)
        else:
            give(channel, [Path(path).expanduser() for path in wish.paths], NoProgress())
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
