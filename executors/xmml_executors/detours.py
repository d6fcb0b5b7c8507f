"""Conduits that go through relays although the plan expects their ends to reach each other: people are told, once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xmml_planner import Plan

RELAY = "relay"
#: What an instance says that refuses to dial another one (native/wire/src/methods/tcp.rs).
ON_LOOPBACK = "listens only on its loopback interface"


class Detours:
    """What the plan expects of conduits, and whether people know that it is otherwise."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._through_relays = {route.conduit for route in plan.routes if route.method == RELAY}
        self._is_told = False

    def notice(self, conduits: Collection[int], method: str, refused: Mapping[str, str]) -> str | None:
        """Return what people are to be told of the method that was chosen for conduits; `None`: nothing.

        Args:
            refused: why each of the faster methods was not taken.
        """
        if self._is_told or method != RELAY or not self._plan.sites:
            return None
        conduit = next(
            (
                self._plan.by_conduit[each]
                for each in conduits
                # Of conduits that handles open while the model runs the plan expects nothing.
                if each in self._plan.by_conduit
                and each not in self._through_relays
                and self._plan.by_conduit[each].methods != (RELAY,)
            ),
            None,
        )
        if conduit is None:
            return None
        self._is_told = True
        site = self._plan.by_name[conduit.receiver].site
        reason = refused.get("tcp", "")
        why = f": {reason}" if reason else ""
        remedy = ""
        if ON_LOOPBACK in reason:
            remedy = f'listen = "node" in [site.{site}] has instances listen where other nodes reach them; '
        return (
            f"{conduit.name} goes through a relay, which is slower than planned{why}; {remedy}"
            "xmml status shows the methods of all conduits"
        )
