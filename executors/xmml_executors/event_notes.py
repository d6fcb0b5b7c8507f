"""What is written to `events.jsonl` of what the coordinator reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xmml_executors import coordinator_events as events

#: How often an instance's progress is noted in the events; less often if there are so many that this would be too much.
PROGRESS_NOTED_EVERY_S = 1.0
PROGRESS_NOTES_PER_S = 20
#: What is not noted as it comes in an event of the coordinator: who and when stands elsewhere, and how much each
#: conduit has carried so far is only for finding deadlocks.
_NOT_NOTED = frozenset(("event", "instance", "time", "sent", "received"))


class EventNotes:
    """Chooses what is noted of the events of the coordinator."""

    def __init__(self, instances: int) -> None:
        """Begin when nothing is noted.

        Args:
            instances: how many the run has.
        """
        self._pause_s = max(PROGRESS_NOTED_EVERY_S, instances / PROGRESS_NOTES_PER_S)
        self._noted: dict[str, float] = {}

    def details(self, event: events.CoordinatorEvent, told: Mapping[str, Any], now: float) -> dict[str, Any] | None:
        """Return what is noted of an event, in the members and their order as it was `told`; `None`: it is not noted.

        Args:
            event: what has happened.
            told: the same, as the coordinator gave it.
            now: monotonic seconds.
        """
        details = {key: value for key, value in told.items() if key not in _NOT_NOTED}
        match event:
            case events.Confirmed() | events.Figures():
                return None
            case events.Progress():
                if now - self._noted.get(event.instance, -self._pause_s) < self._pause_s:
                    return None
                self._noted[event.instance] = now
                details["model_time"] = event.time
        return details
