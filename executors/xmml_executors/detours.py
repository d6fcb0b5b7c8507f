"""Conduits that travel by a slower method than the plan expects: people are told, once of each kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xmml_planner import ConduitSpec, Plan

RELAY = "relay"
#: Fastest first; conduits between programs of one node go by one of these.
WITHIN_A_HOST = ("shm", "unix")
#: What an instance says that refuses to dial another one (native/wire/src/methods/tcp.rs).
ON_LOOPBACK = "listens only on its loopback interface"


class Detours:
    """What the plan expects of conduits, and whether people know that it is otherwise."""

    def __init__(self, plan: Plan, by_hand: Collection[str] = ()) -> None:
        """Learn what the plan expects.

        Args:
            plan: of the run.
            by_hand: instances that somebody else starts, on whichever host.
        """
        self._plan = plan
        self._through_relays = {route.conduit for route in plan.routes if route.method == RELAY}
        # Of a program with several ranks the plan says how many are on each node, not which.
        job_of = {name: job.name for job in plan.jobs for name in job.instances}
        self._node_of = {
            instance.name: (instance.site, job_of.get(instance.name), instance.node)
            for instance in plan.instances
            if instance.name not in by_hand and instance.rank_of is None and instance.ranks == 1
        }
        self._is_relay_told = self._is_host_told = False

    def notice(self, conduits: Collection[int], method: str, refused: Mapping[str, str]) -> str | None:
        """Return what people are to be told of the method that was chosen for conduits; `None`: nothing.

        Args:
            conduits: their ids.
            method: what was chosen.
            refused: why each of the faster methods was not taken.
        """
        # Of conduits that handles open while the model runs the plan expects nothing.
        planned = [self._plan.by_conduit[each] for each in conduits if each in self._plan.by_conduit]
        return self._out_of_the_host(planned, method, refused) or self._through_a_relay(planned, method, refused)

    def _out_of_the_host(self, conduits: list[ConduitSpec], method: str, refused: Mapping[str, str]) -> str | None:
        """Return what to say of programs of one node that do not share memory."""
        better = next((each for each in WITHIN_A_HOST if each in refused and each != method), None)
        conduit = next((each for each in conduits if not each.methods and self._is_within_a_node(each)), None)
        if self._is_host_told or better is None or conduit is None:
            return None
        self._is_host_told = True
        return (
            f"{conduit.name} goes by {method}, which is slower than {better}, although both programs run on one node: "
            f"{refused[better]}; xmml status shows the methods of all conduits"
        )

    def _is_within_a_node(self, conduit: ConduitSpec) -> bool:
        node = self._node_of.get(conduit.sender)
        return node is not None and node == self._node_of.get(conduit.receiver)

    def _through_a_relay(self, conduits: list[ConduitSpec], method: str, refused: Mapping[str, str]) -> str | None:
        """Return what to say of programs that should reach each other without a relay."""
        if self._is_relay_told or method != RELAY or not self._plan.sites:
            return None
        conduit = next(
            (each for each in conduits if each.id not in self._through_relays and each.methods != (RELAY,)), None
        )
        if conduit is None:
            return None
        self._is_relay_told = True
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
