"""What is measured: a row of the CSV file for each figure of a round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from harness.figures import Spread

Figure = Literal[
    "one way",
    "one way, p99",
    "round trip",
    "rate",
    "longest gap",
    "added",
    "p99 alone",
    "p99 beside bulk",
]


@dataclass(frozen=True)
class Sample:
    """One figure in SI units: seconds, or bytes per second for a rate.

    `peer` is direct, forwarders, relays or ping; `count` how many stand between the ends; `links` whether links between
    relays are encrypted: default, clear or encrypted, as asked for. `late_us` is how much later than it should the
    emulated link delivered in the mean meanwhile (0 on loopback): the error of the instrument.
    """

    round: int
    experiment: str
    peer: str
    count: int
    links: str
    rtt_ms: float
    loss: float
    size_b: int
    figure: Figure
    value: float
    late_us: float = 0.0


@dataclass(frozen=True)
class Chain:
    """What stands between the ends: a peer of the benchmark."""

    peer: str
    count: int = 0
    links: str = ""

    @property
    def label(self) -> str:
        if self.count == 0:
            return {"direct": "direct TCP", "ping": "ping"}[self.peer]
        name = {"forwarders": "bare forwarder", "relays": "relay"}[self.peer]
        how = {"clear": ", links in clear", "encrypted": ", links encrypted"}.get(self.links, "")
        return f"{self.count} {name}{'s' if self.count > 1 else ''}{how}"


DIRECT, PING = Chain("direct"), Chain("ping")


def chains_in(samples: Iterable[Sample]) -> list[Chain]:
    """Whoever was measured: direct first, then chains by their length, bare forwarders before relays."""
    found = {Chain(sample.peer, sample.count, sample.links) for sample in samples}
    return sorted(found, key=lambda chain: (chain.count, chain.peer, chain.links))


def spread(
    samples: Iterable[Sample],
    chain: Chain,
    experiment: str,
    figure: Figure,
    *,
    size_b: int | None = None,
    rtt_ms: float | None = None,
) -> Spread | None:
    """A figure over all rounds; None if it was not measured. Of a round with several values their median counts."""
    rounds: dict[int, list[float]] = {}
    for s in samples:
        if (
            (s.peer, s.count, s.links) == (chain.peer, chain.count, chain.links)
            and (s.experiment, s.figure) == (experiment, figure)
            and size_b in (None, s.size_b)
            and rtt_ms in (None, s.rtt_ms)
        ):
            rounds.setdefault(s.round, []).append(s.value)
    return Spread.of([Spread.of(values).median for values in rounds.values()]) if rounds else None
