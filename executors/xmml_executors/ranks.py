"""Further ranks of MPI programs: members of the run that live and die with the process of rank 0."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xmml_planner import Plan

from xmml_executors.instance_record import InstanceRecord, Lifecycle


class Ranks:
    """Which records are further ranks of which instance."""

    def __init__(self, plan: Plan, records: Mapping[str, InstanceRecord]) -> None:
        """Have them share the standard error of their instance: the MPI launcher writes for all of them."""
        self._records = records
        self._of: dict[str, list[InstanceRecord]] = {}
        self._names: set[str] = set()
        for instance in plan.instances:
            if instance.rank_of is not None:
                record = records[instance.name]
                record.rank_of = instance.rank_of
                record.last_words = records[instance.rank_of].last_words
                self._of.setdefault(instance.rank_of, []).append(record)
                self._names.add(instance.name)

    def __contains__(self, name: str) -> bool:
        """Whether a member is a further rank."""
        return name in self._names

    def on_started(self, name: str, now: float) -> None:
        """The process of an instance runs, and so do its ranks."""
        for record in self._of.get(name, ()):
            record.started_at = now
            if record.state is Lifecycle.PLANNED:
                record.become(Lifecycle.STARTED)

    def on_ended(self, name: str, failed: Collection[str]) -> list[InstanceRecord]:
        """The process of an instance is gone, and its ranks with it; return these.

        A rank that has left is done. If the process ended badly, that is the failure of the instance, and only of
        those ranks that had `failed` before. If it ended well, the news of a rank's leaving may still come.
        """
        ended = self._of.get(name, [])
        process = self._records[name]
        for record in ended:
            record.exit_status, record.signal, record.ended_at = process.exit_status, process.signal, process.ended_at
            if record.state.is_final:
                continue
            if record.state is Lifecycle.LEFT:
                record.become(Lifecycle.DONE)
            elif process.exit_status != 0:
                record.become(Lifecycle.FAILED if record.name in failed else Lifecycle.STOPPED)
        return ended
