"""How the conduits of a run travel, and what has passed them: put together from what both ends say."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from xmml_planner import ConduitSpec

from xmml.late_dataclass import dataclass
from xmml_executors.coordinator_events import Figures


@dataclass(frozen=True)
class ConduitFigures:
    """One conduit.

    Attributes:
        method: in use; `None` while it is not chosen.
        protected: what travels is encrypted and authenticated from one end to the other.
        refused: methods that come before it in the table, with the reason why each was not taken.
        slower: methods that would have been the next.
        sent, received: messages sent, and taken by the receiving program; `None` if that was never told.
        bytes: of the messages sent; `None` as `sent`.
        messages_per_s, bytes_per_s: at the sender since somebody asked before; 0 the first time.
        latency_s: how long a message took lately from its sending until the sender knew that the receiving program had
            taken it; `None` if that is not known.
        dropped: messages that nobody received because the receiver had left, or was too slow and may lose some.
        replaced: messages that nobody received because newer ones came, where the receiver sees the newest only.
        waiting: objects of a pool that wait at the sender until a reader has room; those of a queue at the conduit of
            its first reader.
        held_bytes: that the sender has sent, or that wait there, and are not known to have been taken.
    """

    id: int
    name: str
    method: str | None = None
    protected: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)
    slower: tuple[str, ...] = ()
    sent: int | None = None
    received: int | None = None
    bytes: int | None = None
    messages_per_s: float = 0.0
    bytes_per_s: float = 0.0
    latency_s: float | None = None
    dropped: int = 0
    replaced: int = 0
    waiting: int = 0
    held_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**dataclasses.asdict(self), "refused": dict(self.refused), "slower": list(self.slower)}


def merged(conduits: Iterable[ConduitSpec], answers: Iterable[Figures]) -> list[ConduitFigures]:
    """Return the figures of all conduits, as far as the answers of the instances tell."""
    found = {conduit.id: ConduitFigures(conduit.id, conduit.name) for conduit in conduits}
    for answer in answers:
        for report in answer.sending:
            known = found.get(report.conduit)
            if known is not None:
                found[known.id] = dataclasses.replace(
                    known,
                    method=report.chosen or known.method,
                    protected=report.protected,
                    refused=report.refused,
                    slower=report.slower,
                    sent=report.messages,
                    bytes=report.bytes,
                    messages_per_s=report.messages_per_s,
                    bytes_per_s=report.bytes_per_s,
                    latency_s=report.latency_s,
                    replaced=known.replaced + report.replaced,
                    dropped=report.dropped,
                    waiting=report.waiting,
                    held_bytes=report.held_bytes,
                )
        for report in answer.receiving:
            known = found.get(report.conduit)
            if known is not None:
                found[known.id] = dataclasses.replace(
                    known,
                    method=known.method or report.chosen,
                    protected=known.protected or report.protected,
                    received=report.messages,
                    replaced=known.replaced + report.replaced,
                )
    return list(found.values())


def from_events(conduits: Sequence[ConduitSpec], events: Iterable[Mapping[str, Any]]) -> list[ConduitFigures]:
    """Return the figures of all conduits as the events of a run tell them: the method when it was chosen, the rest when
    the instances left. An instance that was stopped or failed has not told what it sent and received."""
    found = {conduit.id: ConduitFigures(conduit.id, conduit.name) for conduit in conduits}
    ends = {conduit.id: conduit for conduit in conduits}
    for event in events:
        if event["what"] == "conduits":
            for known in [found[conduit] for conduit in event["conduits"] if conduit in found]:
                refused, protected = event.get("refused", {}), event.get("protected", False)
                found[known.id] = dataclasses.replace(
                    known, method=event["method"], protected=protected, refused=refused
                )
        elif event["what"] == "left":
            for end in event["conduits"]:
                if end["conduit"] in found:
                    known = found[end["conduit"]]
                    replaced = end.get("replaced", 0)  # records of earlier releases have none
                    known = dataclasses.replace(
                        known, dropped=known.dropped + end["dropped"], replaced=known.replaced + replaced
                    )
                    if end["sent"] or event["instance"] == ends[known.id].sender:
                        known = dataclasses.replace(known, sent=max(known.sent or 0, end["sent"]))
                    if end["received"] or event["instance"] == ends[known.id].receiver:
                        known = dataclasses.replace(
                            known, received=max(known.received or 0, end["received"] - replaced)
                        )
                    found[known.id] = dataclasses.replace(known, bytes=max(known.bytes or 0, end["bytes"]))
    return list(found.values())
