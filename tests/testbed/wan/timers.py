"""How soon messages come again after a fault, compared with the timers of the product that are there for worse faults.

What takes longer than such a timer was not mended by the mechanism under test. These timers are far longer than what a
busy machine adds.
"""

from __future__ import annotations

from measured import Record
from wan.soak import LONG

#: A TCP stream that is silent for so long is closed (`silence` in native/path/src/settings.rs).
STREAM_SILENCE_S = 10.0
#: A path or an instance that reaches nobody gives up after so long (`connect` in native/path/src/settings.rs,
#: CONNECT_LIMIT in native/core/src/runtime/link.rs).
CONNECT_LIMIT_S = 30.0
#: A sender tries the direct connection again after so long at the latest (RETURNS in native/core/src/runtime/link.rs).
RETURN_S = 60.0


def check_soon(record: Record, name: str, took_s: float, *, timer_s: float, goal_s: float) -> None:
    """Record a time, and fail if it reaches a timer of the product.

    Args:
        name: what the record calls the time.
        took_s: the time [s].
        timer_s: the next slower timer of the product [s].
        goal_s: the limit in the long form [s].
    """
    record(name, took_s)
    limit_s = goal_s if LONG else timer_s
    assert took_s < limit_s, f"{name}: {took_s:.2f} s, within {limit_s:g} s was wanted"
