"""A run of which some instances are started by hand, at hosts that are reached through relays."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from xmml_planner import Plan

from xmml_executors.executor import ProcessStart
from xmml_executors.local import LocalExecutor
from xmml_executors.open_folder import OpenFolder


def with_ranks(plan: Plan, names: Collection[str]) -> frozenset[str]:
    """Return the instances that somebody named, all copies of those named without a number, and their ranks."""
    named = {each.name for each in plan.instances if {each.name, each.name.partition("[")[0]} & set(names)}
    return frozenset(each.name for each in plan.instances if {each.name, each.rank_of} & named)


class ByHandExecutor(LocalExecutor):
    """Starts the other instances on this machine, and lets all of them meet through a relay."""

    def __init__(self, folder: OpenFolder, *, relay: str, by_hand: Collection[str]) -> None:
        """Start the supervisor.

        Args:
            folder: of the run.
            relay: where processes here find their relay, the value of XMML_RELAY.
            by_hand: the instances that somebody else starts.

        Raises:
            SiteError: it cannot be started.
        """
        super().__init__(folder)
        self._relay, self._by_hand = relay, by_hand

    def open_relay(self) -> str:
        """Return where the relay is; somebody else has started it."""
        return self._relay

    def start(self, process: ProcessStart) -> None:
        """Start a process, unless that is done by hand."""
        if process.name not in self._by_hand:
            super().start(replace(process, env={**process.env, "XMML_RELAY": self._relay}))

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the process group of an instance; those started by hand hear of the run's end from the
        coordinator."""
        if name not in self._by_hand:
            super().signal(name, number)


def what_to_type(plan: Plan, by_hand: Collection[str], relay: str, run: str, secret_file: str) -> list[str]:
    """Return the lines that tell people how the instances are started elsewhere."""
    site = relay.rpartition("/")[2]
    lines = ["start by hand, where XMML_RELAY=HOST:PORT/SITE names the relay there:"]
    for name in sorted(by_hand):
        instance = plan.by_name[name]
        if instance.rank_of is None:
            variables = {
                "XMML_COORDINATOR": f"relay:/{site}/coordinator?run={run}",
                "XMML_SECRET_FILE": secret_file,
                "XMML_INSTANCE": name,
                **instance.env,
            }
            words = [f"{key}={shlex.quote(value)}" for key, value in variables.items()]
            lines.append(f"  {' '.join(words)} {shlex.join(instance.command)}")
    return lines
