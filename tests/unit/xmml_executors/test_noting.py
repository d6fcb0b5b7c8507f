"""What of the coordinator's events is written down."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from xmml_executors.execution import _Execution


def test_a_wait_is_noted_without_what_every_conduit_has_carried() -> None:
    noted: list[dict[str, Any]] = []
    run = SimpleNamespace(note=lambda what, instance, **details: noted.append({what: instance, **details}))
    waits = [{"conduit": 3, "kind": "receive"}]
    event = {"event": "waiting", "instance": "a", "epoch": 2, "waits": waits, "is_any": False}
    _Execution.note_native(cast(_Execution, run), {**event, "sent": [(1, 7)], "received": [(2, 7)]}, 0.0)
    assert noted == [{"waiting": "a", "epoch": 2, "waits": waits, "is_any": False}]
