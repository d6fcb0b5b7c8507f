"""The end of a copy that ssh has started: does what it is told over its standard streams."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import BinaryIO

from xmml_executors.copying.agreement import Answering, Refused, Wish
from xmml_executors.copying.channel import Broken, Stopped, StreamChannel
from xmml_executors.copying.messages import MAGIC, Malformed, Say, pack
from xmml_executors.copying.progress import Quiet
from xmml_executors.copying.source import Source
from xmml_executors.copying.target import NoRoom, Target
from xmml_executors.copying.tree import layout

#: After the end of the ssh connection, which comes last, this end has so long to finish [s].
_GRACE_S = 3.0


def serve(reading: BinaryIO, writing: BinaryIO) -> int:
    """Takes part in one copy; returns the exit status.

    What goes wrong is told to the other end as long as that can be reached; it tells people.
    """
    writing.write(MAGIC)
    writing.flush()
    over_ssh = StreamChannel(reading, writing)
    where = ""
    try:
        answering = Answering(over_ssh)
        wish = answering.await_wish()
        where = wish.destination
        _take_part(answering, over_ssh, wish)
    except Refused as error:
        over_ssh.send(pack(Say.REFUSED, str(error)))
    except OSError as error:
        over_ssh.send(pack(Say.REFUSED, f"{error.filename or where}: {error.strerror or error}"))
    except Malformed as error:
        over_ssh.send(pack(Say.REFUSED, f"what was heard here cannot be: {error}"))
    except (Broken, NoRoom, Stopped):
        return 1
    return 0


def _take_part(answering: Answering, over_ssh: StreamChannel, wish: Wish) -> None:
    target = None if wish.gives else layout(wish.destination, len(wish.paths))
    channel = answering.follow()
    if channel is not over_ssh:
        threading.Thread(target=_end_with, args=(over_ssh,), daemon=True).start()
    try:
        if target is not None:
            Target(channel, target, Quiet(), wish.compare).run()
        else:
            Source(channel, [Path(path).expanduser() for path in wish.paths], Quiet()).run()
    finally:
        if channel is not over_ssh:
            channel.close()


def _end_with(over_ssh: StreamChannel) -> None:
    """Whoever started this end is gone when the ssh connection is: nobody else would end it."""
    over_ssh.wait_for_end()
    threading.Event().wait(_GRACE_S)
    os._exit(1)
