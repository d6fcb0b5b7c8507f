"""Time-outs between a site and the launcher."""

from __future__ import annotations

import contextlib
import math
import os

from xmml_sites.lease import LEASE_S

from xmml_executors.outcome import SiteError

#: How long an instance may be away, unless XMML_AWAY_LIMIT_S says otherwise (as in native/core, `absence.rs`).
AWAY_LIMIT_S = 60.0
#: The longest pause between two renewals of a lease.
LEASE_EVERY_S = 5.0
#: How many times a lease is renewed at least while it lasts.
TIMES_IN_A_LEASE = 9


def lease_s() -> float:
    """Return how long what runs at a site goes on without a heartbeat of ours: `LEASE_S`, unless XMML_SITE_LEASE_S says
    otherwise.

    Raises:
        SiteError: the environment says something else than a time.
    """
    return _seconds("XMML_SITE_LEASE_S", LEASE_S, may_be_0=False)


def lease_of_gateway_s(lease_s: float) -> float:
    """Return the lease of the site gateway. It is shorter: its relays are of no use to instances that end a moment
    later."""
    return lease_s * 2 / 3


def renewal_interval_s(lease_s: float) -> float:
    """Return the time between two renewals of a lease."""
    return min(LEASE_EVERY_S, lease_s / TIMES_IN_A_LEASE)


def site_timeout_s(*, is_direct: bool) -> float:
    """Return how long we wait for a site that is silent while instances run there.

    Instances that reach the coordinator through ssh are away as long as their site is silent. They must not be taken
    for lost before it is known that the site is to blame.

    Args:
        is_direct: instances come without ssh, so that they may be there although we do not reach their site.

    Raises:
        SiteError: the environment says something else than a time.
    """
    away_s = away_limit_s()
    return lease_s() if is_direct or not away_s else min(lease_s(), away_s)


def away_limit_s() -> float:
    """Return how long an instance whose connection broke may take to reconnect; 0: it cannot.

    Raises:
        SiteError: the environment says something else than a time.
    """
    return _seconds("XMML_AWAY_LIMIT_S", AWAY_LIMIT_S, may_be_0=True)


def _seconds(variable: str, usual_s: float, *, may_be_0: bool) -> float:
    """Return a time that the environment gives; the usual one, where it gives none."""
    text = os.environ.get(variable, "")
    if not text:
        return usual_s
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < math.inf or (may_be_0 and seconds == 0):
            return seconds
    least = "0 or more" if may_be_0 else "more than 0"
    raise SiteError(
        f"{variable}={text} is not possible: expected a number of seconds, {least}; set another one, or unset it for "
        f"the usual {usual_s:g}"
    )
