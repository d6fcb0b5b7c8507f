"""The conduits of a run: those of its plan, those that handles have opened, and those to taps that have joined."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xmml_planner import FIRST_OPENED, ConduitSpec, Plan


class Conduits:
    """The conduits of a run by their numbers; some are opened while it goes on, and those to a tap end with it."""

    def __init__(self, plan: Plan) -> None:
        """Begin with those of the plan."""
        self._by_id = dict(plan.by_conduit)
        self._of_taps: dict[str, list[int]] = {}

    @property
    def by_id(self) -> Mapping[int, ConduitSpec]:
        """All conduits, by their numbers."""
        return self._by_id

    def open(self, conduit: ConduitSpec) -> None:
        """Add a conduit that a handle has opened, or that leads to a tap."""
        self._by_id[conduit.id] = conduit
        if conduit.pool is not None and conduit.pool.is_tap:
            self._of_taps.setdefault(conduit.receiver, []).append(conduit.id)

    def forget_tap(self, name: str) -> Collection[int]:
        """Remove the conduits to a tap that has left; return their numbers."""
        numbers = self._of_taps.pop(name, [])
        for number in numbers:
            del self._by_id[number]
        return numbers

    def leads_to_tap(self, number: int) -> bool:
        """Whether a conduit leads to a tap, or did before that left."""
        conduit = self._by_id.get(number)
        if conduit is None:
            return number >= FIRST_OPENED  # what a handle has opened is never removed
        return conduit.pool is not None and conduit.pool.is_tap
