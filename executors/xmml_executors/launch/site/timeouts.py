"""How long a site and we may hear nothing of each other."""

from __future__ import annotations

import math
import os

#: What runs at a site ends by itself when it has not heard of us for so long, unless XMML_SITE_LEASE_S says otherwise.
LEASE_S = 90.0
#: How long an instance may be away, unless XMML_AWAY_LIMIT_S says otherwise (as in native/core, `absence.rs`).
AWAY_LIMIT_S = 60.0
#: How often a site hears that we live, at least, and how many times while a lease lasts.
LEASE_EVERY_S = 5.0
TIMES_IN_A_LEASE = 9


def lease_s() -> float:
    """How long what runs at a site goes on without a sign of life of ours."""
    return _limit("XMML_SITE_LEASE_S", LEASE_S) or LEASE_S


def lease_of_proxy_s(lease_s: float) -> float:
    """The same for the login proxy, whose relays are of no use to instances that end a moment later."""
    return lease_s * 2 / 3


def every_s(lease_s: float) -> float:
    """How often a lease is renewed."""
    return min(LEASE_EVERY_S, lease_s / TIMES_IN_A_LEASE)


def site_timeout_s(*, is_direct: bool) -> float:
    """How long we wait for a site that is silent while instances run there.

    Instances that reach the coordinator through ssh are away as long as their site is silent. They must not be taken
    for lost before it is known that the site is to blame.

    Args:
        is_direct: instances come without ssh, so that they may be there although we do not reach their site.
    """
    away_s = _limit("XMML_AWAY_LIMIT_S", AWAY_LIMIT_S)
    return lease_s() if is_direct or not away_s else min(lease_s(), away_s)


def _limit(variable: str, usual_s: float) -> float:
    """A time that the environment gives; the usual one, where it is not a number of seconds."""
    try:
        seconds = float(os.environ.get(variable, ""))
    except ValueError:
        return usual_s
    return seconds if 0 <= seconds < math.inf else usual_s
