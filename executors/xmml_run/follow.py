"""Following a run that ends without us."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from typing import Any, TextIO

from xmml_executors.executor import SiteNotice
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_folder import EVENTS
from xmml_executors.run_lock import is_owned
from xmml_executors.sites_progress import SitesProgress

from xmml_run.file_growth import wait_for_growth

#: How long to wait for the events to grow before looking whether the run goes on.
LOOK_EVERY_S = 0.5


def wait_until_ended(
    folder: OpenFolder, limit_s: float, tell: Callable[[str], None], tell_every_s: float, begins_with: str
) -> bool:
    """Wait until a run has ended and everything is cleaned up, as long as it notes events; return whether it has.

    Args:
        limit_s: for how long it need not note any.
        tell: is called with each notice about a site that the run notes meanwhile, and now and then with what goes on.
        begins_with: what goes on as long as the run has noted nothing of that.
    """
    with TextIOWrapper(folder.open_to_read(EVENTS), encoding="utf-8") as events:
        events.seek(0, os.SEEK_END)
        noted_at = told_at = time.monotonic()
        goes_on = True
        progress = SitesProgress()
        while goes_on:
            goes_on = is_owned(folder)  # before the last look at the events
            now = time.monotonic()
            for event in _whole_lines(events):
                noted_at = now
                if event["what"] == "site progress":
                    progress.update(event["site"], event["doing"])
                elif event["what"] == "site":
                    tell(str(SiteNotice(event["text"], event["about"])))
            if goes_on and now - noted_at > limit_s:
                return False
            if goes_on and now - told_at >= tell_every_s:
                idle_s = now - noted_at
                doing = str(progress) or begins_with
                tell(f"{doing}; nothing new for {idle_s:.0f} s" if idle_s > tell_every_s else doing)
                told_at = now
            if goes_on:
                wait_for_growth([folder.lasting_path / EVENTS], LOOK_EVERY_S)
    return True


def _whole_lines(events: TextIO) -> Iterator[dict[str, Any]]:
    """Yield the events that a file holds from its position on; a last line that is being written is left for later."""
    while True:
        begin = events.tell()
        line = events.readline()
        if not line.endswith("\n"):
            events.seek(begin)
            return
        yield json.loads(line)
