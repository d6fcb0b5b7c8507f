"""What a run is when it has ended."""

from __future__ import annotations

from collections.abc import Mapping

from xmml.late_dataclass import dataclass
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.outcome import Outcome


@dataclass(frozen=True)
class RunResult:
    """A run that has ended: how, how long it took, what each instance did, and why none was bound to cores, if that is
    worth a word."""

    outcome: Outcome
    wall_s: float
    records: Mapping[str, InstanceRecord]
    not_bound: str = ""
