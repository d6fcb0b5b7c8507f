"""Synthetic queues: what other users submit to a cluster.

Sizes are powers of two, small ones more often; run times are log-uniform between 1 minute and 12 hours; users ask for
one to ten times what they need, rounded up to what people write (15 min, 1 h, ...), at most a day. Arrivals are a
Poisson process whose rate follows the hour (three times as many by day), scaled so that on average the cores are busy
for the wanted share of the time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

SIZES = (1, 2, 4, 8, 16, 32)
SIZE_WEIGHTS = (8, 6, 6, 5, 3, 1)
SHORTEST_S, LONGEST_S = 60.0, 12 * 3600.0
LIMITS_S = tuple(60.0 * minutes for minutes in (15, 30, 60, 120, 240, 480, 720, 1440))
MOST_ASKED = 10.0


@dataclass(frozen=True)
class Request:
    """A job of somebody else."""

    at: float
    cores: int
    limit_s: float
    run_s: float


def requests(cores: int, load: float, until: float, seed: str) -> Iterator[Request]:
    """Return what other users submit to a cluster of so many cores until some time."""
    dice = random.Random(seed)
    mean_cores = sum(s * w for s, w in zip(SIZES, SIZE_WEIGHTS, strict=True)) / sum(SIZE_WEIGHTS)
    mean_run = (LONGEST_S - SHORTEST_S) / math.log(LONGEST_S / SHORTEST_S)
    rate = load * cores / (mean_cores * mean_run)
    at = 0.0
    while True:
        # Thinning: candidates at the highest rate, kept with the probability of their hour.
        at += dice.expovariate(1.5 * rate)
        if at >= until:
            return
        if dice.random() * 1.5 > 1.0 + 0.5 * math.sin(2 * math.pi * at / 86400.0):
            continue
        run = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** dice.random()
        asked = run * dice.uniform(1.0, MOST_ASKED)
        limit = next((each for each in LIMITS_S if each >= asked), LIMITS_S[-1])
        yield Request(at, dice.choices(SIZES, SIZE_WEIGHTS)[0], limit, run)
