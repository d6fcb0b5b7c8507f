"""The cores of the processes of a run on this machine: chosen when the first are started, and given back when other
programs turn out to use them, or when the run ends."""

from __future__ import annotations

import os
from collections.abc import Collection

from xmml_native.machine import descendants
from xmml_planner import Plan

from xmml_executors.binding.contention import CoreWatch
from xmml_executors.binding.leases import CpuLeases
from xmml_executors.binding.process_binding import Binding, bind
from xmml_executors.binding.topology import devices_folder, own_cpus


class CoreBinding:
    """Which cores each process of this machine has now."""

    def __init__(self) -> None:
        """Begin without any."""
        self._binding: Binding | None = None
        self._leases = CpuLeases(devices_folder())
        self._watch = CoreWatch(own_cpus())

    @property
    def is_chosen(self) -> bool:
        """Whether `choose` has been called."""
        return self._binding is not None

    @property
    def deadline(self) -> float | None:
        """When `why_unbound` wants to be called."""
        return self._watch.look_at

    @property
    def current(self) -> Binding:
        """What is bound now; it must have been chosen."""
        assert self._binding is not None
        return self._binding

    def choose(self, plan: Plan, by_hand: Collection[str]) -> Binding:
        """Choose the cores of the processes of a plan.

        Args:
            plan: the part that runs here.
            by_hand: instances that somebody else starts.
        """
        self._binding = bind(plan, by_hand, self._leases)
        return self._binding

    def watch(self, process: str, pid: int, now: float) -> None:
        """From now on see whether a process has its cores for itself."""
        binding = self._binding
        if binding is not None and binding.is_watched and process in binding.cpus:
            self._watch.add(process, pid, now)

    def why_unbound(self, now: float) -> str:
        """Bind nothing any more if processes have to wait for their cores; return why, or nothing."""
        if self._watch.look_at is None or self._watch.look_at > now:
            return ""
        if reason := self._watch.look(now):
            bound = self._binding.cpus.values() if self._binding is not None else ()
            self._watch.unbind(descendants(os.getpid()), bound)
            self._leases.release()
            self._binding = Binding(reason=reason)
        return reason

    def release(self) -> None:
        """Let other runs have the cores."""
        self._leases.release()
