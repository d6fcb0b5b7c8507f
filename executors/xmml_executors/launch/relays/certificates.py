"""The certificates of the relays of a run: each relay trusts those of the others, and no certificate else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

#: How long a relay may take to hear of a certificate. One that does not is being lost, and learns all when it is back.
HEARD_WITHIN_S = 10.0


class RelayTrust(Protocol):
    """A relay that takes the certificates to trust."""

    async def trust(self, certificates: Sequence[str]) -> None:
        """Send them to the relay."""


class Certificates:
    """Tells each relay of a run the certificates of all of them. One that is started again has a new one."""

    def __init__(self) -> None:
        self._shown: dict[RelayTrust, str] = {}
        self._lock = asyncio.Lock()

    def begin(self, relay: RelayTrust, certificate: str) -> None:
        """Note the first relay; there is no other yet to be trusted."""
        self._shown[relay] = certificate

    async def show(self, relay: RelayTrust, certificate: str) -> None:
        """A relay has begun with this certificate: tell all others, so that it can be linked to them, and itself.

        Args:
            certificate: its SHA-256, as it says.
        """
        async with self._lock:
            self._shown[relay] = certificate
            certificates = sorted(self._shown.values())
            await asyncio.gather(*(self._tell(each, certificates) for each in self._shown))

    async def _tell(self, relay: RelayTrust, certificates: Sequence[str]) -> None:
        # Whatever keeps a relay from hearing it ends it too, sooner or later; it is then told at its new start.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(HEARD_WITHIN_S):
                await relay.trust(certificates)
