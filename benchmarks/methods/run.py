"""What idle conduits by a slow method cost those by a fast one, how long a change of methods holds messages up, and
what protection costs.

python benchmarks/methods/run.py [--quick] [--rounds N] [--experiments NAME,...]

*Idle*: ping-pong by shared memory (and by a Unix socket) while 0, 1, 10, 100 idle TCP conduits are attached to the
instance that measures. In 1996 one idle TCP conduit made a message of Nexus take 156 us instead of 83, because each
look for the fast one looked for the slow one too. *Change*: ping-pong while its methods are changed all the time; what
counts is the longest round trip. *Protection*: ping-pong by tcp, as it is and encrypted, beside one of bare bytes over
a socket, as it is and in TLS 1.3 (OpenSSL). *Stream*: messages one way by tcp, as they are and encrypted, between
programs that `xmml-run` starts and binds. Results: a table, a CSV file with every figure, a plot.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import coupled
import launched
import plot
from harness import builds, campaign, choice, figures, places, processes
from harness.figures import Spread, size
from xmml_native import Coordinator

BARE_PROGRAM = Path(__file__).parent / "programs" / "tls_ends.cpp"
METHODS = ("shm", "unix")
IDLE = (0, 1, 10, 100)
SIZES = (0, 10 * 1024)
COUNT, QUICK_COUNT = 20_000, 500
CHANGE_COUNT, QUICK_CHANGE_COUNT = 40_000, 2_000
CHANGES = ("tcp", "shm", "unix")
PROTECTED = ("tcp", "protected tcp")
#: Without xMML, by what the program of the peer calls it.
BARE = {"bare socket": "plain", "TLS 1.3": "tls"}
#: Bytes of the messages that are protected, and how many of them there are; a message has so many bytes besides.
HEADS_B = 48
PROTECTED_COUNTS = {0: 20_000, 1024: 20_000, 65_536: 4_000, 1 << 20: 400, 16 << 20: 40}
STREAM_COUNTS = {1024: 400_000, 65_536: 40_000, 1 << 20: 3_000, 16 << 20: 200}


@dataclass(frozen=True)
class Sample:
    """One ping-pong or stream: a row of the CSV file. `changes` counts how often a method was changed meanwhile; times
    are those of round trips, or from one message of a stream to the next."""

    round: int
    experiment: str
    method: str
    idle: int
    size_b: int
    count: int
    changes: int
    median_s: float
    p99_s: float
    longest_s: float
    total_s: float


def main() -> int:
    arguments = parse()
    idle = [int(count) for count in arguments.idle.split(",")]
    names = campaign.known(arguments.experiments, "experiment", EXPERIMENTS)
    builds.compile_submodel(coupled.PROGRAM)
    if "protection" in names:
        try:
            builds.compile_program(["c++", "-std=c++17"], BARE_PROGRAM, ["-pthread", "-lssl", "-lcrypto"])
        except processes.RunFailed as missing:
            campaign.say(f"without TLS 1.3 (apt-get install libssl-dev): {missing}")
            BARE.clear()
    failed = 0

    def experiment(name: str, number: int) -> Iterator[Sample]:
        nonlocal failed
        for measure in EXPERIMENTS[name](number, idle, arguments.quick):
            try:
                yield measure()
            except processes.RunFailed as failure:
                failed += 1
                campaign.say(str(failure))

    def tables(samples: Sequence[Sample], machine: str) -> str:
        return report(samples, machine, idle)

    def draw(samples: Sequence[Sample], machine: str, path: Path) -> bool:
        return plot.draw(samples, idle, machine, path)

    status = campaign.carry_out("methods", arguments, names, experiment, tables, draw)
    return 1 if failed else status


def parse() -> argparse.Namespace:
    parser = campaign.parser(__doc__, EXPERIMENTS, "one round, fewer messages: for a first look")
    parser.add_argument("--idle", default=",".join(map(str, IDLE)), help="idle conduits, with commas (%(default)s)")
    return parser.parse_args()


def beside_idle(number: int, idle: Sequence[int], quick: bool) -> Iterator[Callable[[], Sample]]:
    """What a round measures beside idle conduits, one thing after the other, so that a busy moment hits all alike."""
    for size_b, method, attached in itertools.product(SIZES, METHODS, idle):
        yield partial(with_idle, number, method, attached, size_b, QUICK_COUNT if quick else COUNT)


def while_changing(number: int, idle: Sequence[int], quick: bool) -> Iterator[Callable[[], Sample]]:
    """What a round measures while methods change."""
    yield partial(with_changes, number, QUICK_CHANGE_COUNT if quick else CHANGE_COUNT)


def with_protection(number: int, idle: Sequence[int], quick: bool) -> Iterator[Callable[[], Sample]]:
    """What a round measures with and without protection, one after the other."""
    for (size_b, count), method in itertools.product(PROTECTED_COUNTS.items(), (*PROTECTED, *BARE)):
        measure = bare if method in BARE else protected
        yield partial(measure, number, method, size_b, max(10, count // 20) if quick else count)


def streams(number: int, idle: Sequence[int], quick: bool) -> Iterator[Callable[[], Sample]]:
    """What a round measures of streams with and without protection, one after the other; who begins alternates."""
    for size_b, count in STREAM_COUNTS.items():
        for method in choice.rotated(list(PROTECTED), number):
            yield partial(streamed, number, method, size_b, max(20, count // 20) if quick else count)


EXPERIMENTS = {"idle": beside_idle, "change": while_changing, "protection": with_protection, "stream": streams}


def streamed(number: int, method: str, size_b: int, count: int) -> Sample:
    measured = launched.stream(size_b, count, is_protected=method != PROTECTED[0])
    return Sample(number, "stream", method, 0, size_b, count, 0, **measured)


def protected(number: int, method: str, size_b: int, count: int) -> Sample:
    measured, _ = coupled.play(method, 0, size_b, count)
    return Sample(number, "protection", method, 0, size_b, count, 0, **measured)


def bare(number: int, method: str, size_b: int, count: int) -> Sample:
    """As many bytes as a message of xMML has, heads included, without xMML."""
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        report, log = Path(name) / "report.json", Path(name) / "log"
        words = [builds.program(BARE_PROGRAM), BARE[method], str(size_b + HEADS_B), str(count), report]
        processes.run(words, log=log, environment=places.environment(), timeout_s=coupled.TIMEOUT_S)
        measured = json.loads(report.read_text())
    return Sample(number, "protection", method, 0, size_b, count, 0, **measured)


def with_idle(number: int, method: str, idle: int, size_b: int, count: int) -> Sample:
    measured, _ = coupled.play(method, idle, size_b, count)
    return Sample(number, "idle", method, idle, size_b, count, 0, **measured)


def with_changes(number: int, count: int) -> Sample:
    turns = itertools.cycle(CHANGES)

    def change(coordinator: Coordinator) -> int:
        method = next(turns)
        for conduit in (coupled.CALL, coupled.ANSWER):
            coordinator.change(conduit, [method])
        awaited = {coupled.CALL, coupled.ANSWER}
        changed = 0
        for _ in range(20):
            for event in coordinator.wait_events(0.05):
                if event["event"] == "changed":
                    awaited.discard(event["conduit"])
                    changed += event["problem"] is None and event["method"] is not None
            if not awaited:
                break
        return changed

    measured, changes = coupled.play("", 0, 64, count, change)
    return Sample(number, "change", "all in turn", 0, 64, count, changes, **measured)


def report(samples: Sequence[Sample], machine: str, idle: Sequence[int]) -> str:
    """The tables, as Markdown; of experiments that were left out there are none."""
    rounds = 1 + max(sample.round for sample in samples)
    parts = [f"{machine}. Median of {rounds} rounds, all in each, with the least and the most in brackets."]
    if any(sample.experiment == "idle" for sample in samples):
        parts += ["### Beside idle conduits", idle_table(samples, idle)]
    if any(sample.experiment == "change" for sample in samples):
        parts += ["### While methods change", change_table(samples)]
    if any(sample.experiment == "protection" for sample in samples):
        parts += ["### What protection costs", protection_table(samples)]
    if any(sample.experiment == "stream" for sample in samples):
        parts += ["### A stream with and without protection", stream_table(samples)]
    return "\n\n".join(parts) + "\n"


def idle_table(samples: Sequence[Sample], idle: Sequence[int]) -> str:
    """One-way times by the number of idle conduits, and how much longer than alone they take."""
    rows = []
    for size_b, method in itertools.product(SIZES, METHODS):
        times = {attached: one_way(samples, method, size_b, attached) for attached in idle}
        alone = times.get(0)
        cells = []
        for attached in idle:
            spread = times[attached]
            over = f" (x{spread.median / alone.median:.2f})" if spread and alone and attached else ""
            cells.append(f"{spread}{over}" if spread else "-")
        rows.append([f"{method}, {size(size_b)}", *cells])
    return figures.table(["one-way time [us]", *(f"{attached} idle" for attached in idle)], rows)


def protection_table(samples: Sequence[Sample]) -> str:
    """One-way times without and with protection, of xMML and of sockets alone, by the size of a message."""
    rows = []
    for size_b in PROTECTED_COUNTS:
        cells = []
        for pair in (PROTECTED, BARE):
            plain, safe = (one_way(samples, method, size_b, 0, "protection") for method in pair)
            times = f" (x{safe.median / plain.median:.2f})" if plain and safe else ""
            cells += [str(plain or "-"), f"{safe}{times}" if safe else "-"]
        rows.append([size(size_b), *cells])
    return figures.table(["one-way time [us]", "tcp", "protected", *BARE], rows)


def stream_table(samples: Sequence[Sample]) -> str:
    """What streams carry [MB/s] without and with protection, by the size of a message."""
    rows = []
    for size_b in STREAM_COUNTS:
        rates = []
        for method in PROTECTED:
            own = [s for s in samples if (s.experiment, s.method, s.size_b) == ("stream", method, size_b)]
            rates.append(Spread.of(size_b * (s.count - 1) / s.total_s / 1e6 for s in own) if own else None)
        plain, safe = rates
        part = f"{safe.median / plain.median:.2f}" if plain and safe else "-"
        rows.append([size(size_b), str(plain or "-"), str(safe or "-"), part])
    return figures.table(["one way [MB/s]", "tcp", "protected", "of that of tcp"], rows)


def change_table(samples: Sequence[Sample]) -> str:
    """How long a round trip takes while methods change, at the median and at worst."""
    changed = [sample for sample in samples if sample.experiment == "change"]
    count = Spread.of(float(sample.changes) for sample in changed)
    median = Spread.of(1e6 * sample.median_s for sample in changed)
    longest = Spread.of(1e3 * sample.longest_s for sample in changed)
    return figures.table(
        ["changing methods", "changes", "median round trip [us]", "longest round trip [ms]"],
        [["tcp, shm, unix in turn", str(count), str(median), str(longest)]],
    )


def one_way(samples: Sequence[Sample], method: str, size_b: int, idle: int, experiment: str = "idle") -> Spread | None:
    """Half of the median round trip [us] over all rounds; None if nothing was measured."""
    key = (experiment, method, size_b, idle)
    values = [5e5 * s.median_s for s in samples if (s.experiment, s.method, s.size_b, s.idle) == key]
    return Spread.of(values) if values else None


if __name__ == "__main__":
    raise SystemExit(main())
