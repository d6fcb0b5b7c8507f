"""Co-allocation: all jobs of a group run at once, or none burns time.

Strategies are pure state machines: events and times go in, actions come out. The launch over sites drives them with
real schedulers, `benchmarks/co-allocation` with simulated ones.
"""

from __future__ import annotations

from xmml_executors.coallocation.heterogeneous_job import HeterogeneousJob
from xmml_executors.coallocation.rendezvous import Rendezvous, RendezvousPolicy
from xmml_executors.coallocation.reservation import Reservation
from xmml_executors.coallocation.strategy import Member, Phase, Strategy

__all__ = ["HeterogeneousJob", "Member", "Phase", "Rendezvous", "RendezvousPolicy", "Reservation", "Strategy"]
