"""Advance reservations at one site: asked for, confirmed, given back; what was asked for is noted before."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Sequence

from xmml_sites.batch import ReservationRefused, ReservationRequest, ReservationState, Scheduler
from xmml_sites.ssh import Transport

from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.timeouts import lease_s
from xmml_executors.outcome import SiteError

#: Clocks that are not further apart show the same time, as far as whole seconds and the way to a site can tell.
CLOCKS_AGREE_S = 1.0
#: From the request of a reservation until it must be confirmed.
CONFIRMED_WITHIN_S = 30.0


class Reservations:
    """Those of one run at one site.

    Attributes:
        unreleased: what may be reserved and has to be given back.
    """

    def __init__(self, site: str, run_id: str, transport: Transport, scheduler: Scheduler, journal: Journal) -> None:
        self._site, self._run_id = site, run_id
        self._transport, self._scheduler, self._journal = transport, scheduler, journal
        self.unreleased: set[str] = set()

    async def existing(self, ids: Sequence[str]) -> list[str]:
        """Return those that still stand.

        Raises:
            SchedulerUnavailable, TransportError: the site does not say.
        """
        return [id for id in ids if await self._state(id) is not ReservationState.GONE]

    async def _state(self, id: str) -> ReservationState:
        return self._scheduler.parse_reservation(await self._transport.run(self._scheduler.reservation_command(id)))

    async def reserve(self, job: SiteJob, starts_at: float, duration_s: float) -> str:
        """Reserve the cores of a job; return the id of the reservation. All sites that are given the same time begin in
        the same second, as far as their clocks can be known.

        Args:
            starts_at: by our clock, in seconds since 1970.

        Raises:
            ReservationRefused: the site does not.
        """
        user, ahead_s = await self._user_and_clock()
        planned = job.planned
        wish = ReservationRequest(
            # Each has a name of its own: the one before it may be being given back under its name at this moment.
            name=f"xmml-{self._run_id[-8:]}-{job.member}-{secrets.token_hex(2)}",
            user=user,
            nodes=max(1, planned.nodes),
            cores=max(1, planned.cores_per_node),
            starts_at=max(math.ceil(starts_at + ahead_s), math.ceil(time.time() + ahead_s) + 1),
            duration_s=duration_s,
            partition=job.part.partition or "",
            idle_s=lease_s(),
        )
        self._note(wish.name, job)
        try:
            id = self._scheduler.parse_reserve(await self._transport.run(self._scheduler.reserve_command(wish)), wish)
        except ReservationRefused:
            self.unreleased.discard(wish.name)
            raise
        if id != wish.name:
            self._note(id, job)
            self.unreleased.discard(wish.name)
        await self._confirmed(id)
        return id

    async def _user_and_clock(self) -> tuple[str, float]:
        """Return who we are at the site, and how far its clock is ahead of ours [s]. One that may well show the same as
        ours is believed to."""
        asked_at = time.time()
        answer = await self._transport.run("id -un && date +%s")
        answered_at = time.time()
        user, _, clock = answer.stdout.strip().partition("\n")
        if answer.status != 0 or not clock.strip().isdigit():
            raise SiteError(f"site {self._site}: it does not report the user name and the time: {answer.said}")
        ahead_s = int(clock) + 0.5 - (asked_at + answered_at) / 2
        return user, 0.0 if abs(ahead_s) <= (answered_at - asked_at) / 2 + CLOCKS_AGREE_S else ahead_s

    def _note(self, name: str, job: SiteJob) -> None:
        """Note, before it is made, what has to be given back whatever happens."""
        self._journal.write("reserve", site=self._site, name=name, job=job.member)
        self.unreleased.add(name)

    async def _confirmed(self, id: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + CONFIRMED_WITHIN_S
        while True:
            state = await self._state(id)
            if state in (ReservationState.CONFIRMED, ReservationState.ACTIVE):
                return
            if state is ReservationState.GONE:
                self.unreleased.discard(id)
                raise ReservationRefused(f"the reservation {id} was denied")
            if loop.time() > until:
                await self.give_back(id)
                raise ReservationRefused(f"the reservation {id} was not confirmed within {CONFIRMED_WITHIN_S:g} s")
            await asyncio.sleep(0.5)

    async def give_back(self, id: str) -> None:
        """Give a reservation back. One that its jobs have only just left may still be in use for a moment; for longer
        if the queue has just been started again and asks its nodes.

        Raises:
            SiteError: it cannot be given back.
        """
        for pause_s in (0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 4.0, 0.0):
            answer = await self._transport.run(self._scheduler.unreserve_command(id))
            if await self._state(id) is ReservationState.GONE:
                self._journal.write("unreserved", site=self._site, name=id)
                self.unreleased.discard(id)
                return
            await asyncio.sleep(pause_s)
        raise SiteError(f"site {self._site}: the reservation {id} cannot be given back: {answer.said}")
