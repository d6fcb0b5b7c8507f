"""How long a site and we may hear nothing of each other."""

from __future__ import annotations

import math
import os

#: What runs at a site ends by itself when it has not heard of us for so long, unless XMML_SITE_LEASE_S says otherwise.
LEASE_S = 90.0
#: How often a site hears that we live, at least, and how many times while a lease lasts.
LEASE_EVERY_S = 5.0
TIMES_IN_A_LEASE = 9


def lease_s() -> float:
    """How long what runs at a site goes on without a sign of life of ours."""
    return _limit("XMML_SITE_LEASE_S", LEASE_S) or LEASE_S


def lease_of_programs_s() -> float:
    """The same for a relay or a door, which are of no use to instances that end a moment later."""
    return lease_s() * 2 / 3


def every_s(lease_s: float) -> float:
    """How often a lease is renewed."""
    return min(LEASE_EVERY_S, lease_s / TIMES_IN_A_LEASE)


def _limit(variable: str, usual_s: float) -> float:
    """A time that the environment gives; the usual one, where it is not a number of seconds."""
    try:
        seconds = float(os.environ.get(variable, ""))
    except ValueError:
        return usual_s
    return seconds if 0 <= seconds < math.inf else usual_s
