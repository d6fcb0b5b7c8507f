"""The samples of a run, and the tables made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cases import EXPERIMENTS, Experiment
from harness import figures
from peers import PEERS, Peer


@dataclass(frozen=True)
class Sample:
    """What one case of one peer gave in one round: a row of the CSV file.

    Attributes:
        offered: objects of all writers.
        received: objects of all readers.
        seconds: from the first object of any writer until the last one was read.
        processor_s: what writers and readers, but not a server of theirs, have had of the processors meanwhile.
        sent_b: what the writers have sent, attributes included, where the peer says it.
    """

    round: int
    experiment: str
    case: str
    peer: str
    size_b: int
    offered: int
    received: int
    seconds: float
    processor_s: float
    sent_b: float | None

    @property
    def sent_b_each(self) -> float:
        return (self.sent_b or 0) / self.offered

    @property
    def processor_us(self) -> float:
        return 1e6 * self.processor_s / self.offered

    @property
    def figure(self) -> float:
        per_s = self.offered / self.seconds
        return per_s * self.size_b / 2**30 if EXPERIMENTS[self.experiment].unit == "GiB/s" else per_s


@dataclass(frozen=True)
class Absence:
    """What was not measured, and why."""

    peer: str
    case: str
    reason: str


def report(samples: Sequence[Sample], absences: Sequence[Absence], peers: Sequence[Peer], machine: str) -> str:
    """Return all tables, as Markdown."""
    rounds = 1 + max(sample.round for sample in samples)
    measured = {sample.peer for sample in samples}
    versions = ", ".join(dict.fromkeys(peer.version() for peer in peers if peer.name in measured and peer.version()))
    head = f"{machine}. Median of {rounds} rounds, all peers in each, with the least and the most in brackets."
    parts = [f"{head} {versions}." if versions else head]
    for name, experiment in EXPERIMENTS.items():
        own = [sample for sample in samples if sample.experiment == name]
        if own:
            parts += section(name, experiment, own, peers)
    if absences:
        rows = [(each.peer, each.case, each.reason) for each in absences]
        parts.append(f"### Not measured\n\n{figures.table(('peer', 'case', 'why'), rows)}")
    return "\n\n".join(parts) + "\n"


def section(name: str, experiment: Experiment, samples: Sequence[Sample], peers: Sequence[Peer]) -> list[str]:
    """Return the tables of an experiment: its figures, these over those of its measure, and processor time."""
    titles = [case.name for case in experiment.cases if any(sample.case == case.name for sample in samples)]
    taking_part = [peer for peer in peers if name in peer.experiments]
    spreads = spreads_of(samples, lambda sample: sample.figure)
    used = spreads_of(samples, lambda sample: sample.processor_us)
    parts = [f"### {experiment.title} [{experiment.unit}]\n\n{experiment.text}", table(spreads, taking_part, titles)]
    measure = next(peer for peer in PEERS if peer.name == experiment.measure)
    ratios = []
    for peer in taking_part:
        pairs = [(spreads.get((peer.name, title)), spreads.get((measure.name, title))) for title in titles]
        cells = [figures.number(own.median / its.median) if own and its else "-" for own, its in pairs]
        if peer != measure and set(cells) != {"-"}:
            ratios.append([peer.label, *cells])
    if ratios:
        parts.append(f"Over {measure.label}:\n\n{figures.table(['', *titles], ratios)}")
    parts.append("Processor time of writers and readers for each object offered [us]:")
    parts.append(table(used, taking_part, titles))
    if name == "wanted" and (told := [sample for sample in samples if sample.sent_b is not None]):
        sent = spreads_of(told, lambda sample: sample.sent_b_each)
        parts.append("Bytes sent for each object offered, attributes included, as xMML counts them:")
        parts.append(table(sent, [peer for peer in taking_part if (peer.name, titles[0]) in sent], titles))
    return parts


def spreads_of(samples: Sequence[Sample], figure: Callable[[Sample], float]) -> dict[tuple[str, str], figures.Spread]:
    """Return a figure over all rounds, by peer and case."""
    values: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        values.setdefault((sample.peer, sample.case), []).append(figure(sample))
    return {key: figures.Spread.of(its) for key, its in values.items()}


def table(spreads: Mapping[tuple[str, str], figures.Spread], peers: Sequence[Peer], titles: Sequence[str]) -> str:
    """Return a row for each peer, a column for each case."""
    rows = [[peer.label, *(str(spreads.get((peer.name, title), "-")) for title in titles)] for peer in peers]
    return figures.table(["", *titles], rows)
