"""The events of a run as a trace that https://ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_MICROSECONDS = 1e6


def trace(events: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the trace: a row for each instance with its life, the time it was in the run, and its waits of more
    than a moment."""
    rows: dict[str, int] = {}
    entries: list[dict[str, Any]] = []
    open_spans: dict[tuple[str, str], float] = {}

    def close(instance: str, name: str, time: float) -> None:
        began = open_spans.pop((instance, name), None)
        if began is not None:
            entries.append(_span(name, rows[instance], began, time))

    for event in events:
        instance, time, what = event.get("instance"), float(event["time"]), event["what"]
        if instance is None:
            entries.append({"ph": "i", "s": "g", "name": what, "pid": 1, "tid": 0, "ts": time * _MICROSECONDS})
            continue
        if instance not in rows:
            rows[instance] = len(rows) + 1
            entries.append(
                {"ph": "M", "name": "thread_name", "pid": 1, "tid": rows[instance], "args": {"name": instance}}
            )
        opens, closes = _SPANS.get(what, ((), ()))
        for name in closes:
            close(instance, name, time)
        for name in opens:
            open_spans[instance, name] = time
    return {"displayTimeUnit": "ms", "traceEvents": entries}


#: Which spans each event opens and closes.
_SPANS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "started": (("process",), ()),
    "joined": (("in the run",), ()),
    "waiting": (("waiting",), ()),
    "resumed": ((), ("waiting",)),
    "away": (("away",), ()),
    "back": ((), ("away",)),
    "left": ((), ("waiting", "away", "in the run")),
    "lost": ((), ("waiting", "away", "in the run")),
    "ended": ((), ("waiting", "away", "in the run", "process")),
}


def _span(name: str, row: int, began: float, ended: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "pid": 1,
        "tid": row,
        "ts": began * _MICROSECONDS,
        "dur": (ended - began) * _MICROSECONDS,
    }
