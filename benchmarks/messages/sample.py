"""What is measured, and the figures made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.figures import Spread


@dataclass(frozen=True)
class Sample:
    """What one segment of one round gave: a row of the CSV file.

    `message_s` is half of a round trip (ping-pong), or the whole time over the number of messages (stream). Memory is
    that of the end that begins, and of the other; the share of an end has half of each page that both see.
    """

    round: int
    peer: str
    pattern: str
    size_b: int
    count: int
    message_s: float
    first_before_kib: int
    first_peak_kib: int
    second_before_kib: int
    second_peak_kib: int
    first_share_before_kib: int
    first_share_kib: int
    second_share_before_kib: int
    second_share_kib: int

    @property
    def one_way_us(self) -> float:
        return 1e6 * self.message_s

    @property
    def throughput_gib_s(self) -> float:
        return self.size_b / self.message_s / 2**30

    @property
    def messages_per_s(self) -> float:
        return 1 / self.message_s

    @property
    def payloads(self) -> float:
        """Resident memory that messages of this size bring with them, in payloads: the mean of both ends."""
        grown = self.first_peak_kib - self.first_before_kib + self.second_peak_kib - self.second_before_kib
        return grown / 2 * 1024 / self.size_b

    @property
    def shared_payloads(self) -> float:
        """The same after the last message, and what both ends see counted once."""
        first = self.first_share_kib - self.first_share_before_kib
        return (first + self.second_share_kib - self.second_share_before_kib) / 2 * 1024 / self.size_b


Figure = Callable[[Sample], float]


def spread(samples: Sequence[Sample], peer: str, pattern: str, size_b: int, figure: Figure) -> Spread | None:
    """One figure over all rounds; None if nothing was measured."""
    values = [figure(s) for s in samples if (s.peer, s.pattern, s.size_b) == (peer, pattern, size_b)]
    return Spread.of(values) if values else None
