"""The certificates of the relays of a run: each relay trusts those of the others, and no certificate else.

It knows whose each of them is, so that no relay is believed what it says in the name of another.

On links in clear no certificate is shown: each relay takes them only from the relays that the plan has dial it so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

#: How long a relay may take to hear of a certificate. One that does not is being lost, and learns all when it is back.
HEARD_WITHIN_S = 10.0


class RelayTrust(Protocol):
    """A relay that is told which others it may believe."""

    @property
    def name(self) -> str:
        """Of the relay."""

    @property
    def site_name(self) -> str:
        """The site whose relay it is."""

    @property
    def clear_from(self) -> Collection[str]:
        """The sites whose relays dial it without encryption."""

    async def trust(self, certificates: Mapping[str, str], clear_from: Sequence[str]) -> None:
        """Have the relay trust these certificates, by the names of their relays, and take links in clear from these
        relays, and no others."""


def trust_order(certificates: Mapping[str, str]) -> dict[str, object]:
    """Return what tells a relay the certificates, by the names of their relays."""
    return {"command": "trust", "relays": dict(certificates)}


def trust_orders(certificates: Mapping[str, str], clear_from: Sequence[str]) -> tuple[dict[str, object], ...]:
    """Return what tells a relay whom to trust, and from whom to take links in clear."""
    return (
        trust_order(certificates),
        {"command": "take-clear-from", "sites": list(clear_from)},
    )


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
            certificates = {each.name: shown for each, shown in self._shown.items()}
            await asyncio.gather(*(self._tell(each, certificates) for each in self._shown))

    async def _tell(self, relay: RelayTrust, certificates: Mapping[str, str]) -> None:
        clear_from = sorted(other.name for other in self._shown if other.site_name in relay.clear_from)
        # Whatever keeps a relay from hearing it ends it too, sooner or later; it is then told at its new start.
        with contextlib.suppress(Exception):
            async with asyncio.timeout(HEARD_WITHIN_S):
                await relay.trust(certificates, clear_from)
