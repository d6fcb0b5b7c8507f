"""How long the first messages between two programs take as a user starts them, bound to cores and not.

python benchmarks/binding/run.py [--quick] [--rounds N]

Two programs in Python play ping-pong with 1 KiB, started by `xmml-run` and bound by nothing but it. Every round runs
them with each setting of --bind, one right after the other; who begins alternates. The one-way time is half of a round
trip: the median, and the mean, of the first hundred messages, of those after them, and of thousands. Results: a table
and a CSV file with every figure.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import campaign, choice, figures, places, processes
from harness.figures import Spread

PROGRAM = Path(__file__).resolve().parent / "programs" / "ends.py"
MODES = {"as it comes": (), "--bind core": ("--bind", "core"), "--bind none": ("--bind", "none")}
#: From which message on and to which one.
WINDOWS = ((0, 100), (100, 1000), (1000, 5000))
SIZE_B = 1024
TIMEOUT_S = 120.0

MODEL = """<model id="pingpong" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Ping">
      <timescale delta="1 s"/>
      <ports><out id="call" operator="Oi"/><in id="answer" operator="S"/></ports>
      <implementation language="python" path="{program}" run:args="ping"/>
    </submodel>
    <submodel id="Pong">
      <timescale delta="1 s" total="1 s"/>
      <ports><in id="call" operator="finit"/><out id="answer" operator="Of"/></ports>
      <implementation language="python" path="{program}" run:args="pong"/>
    </submodel>
  </definitions>
  <topology>
    <instance id="ping" submodel="Ping" run:steps="until"/>
    <instance id="pong" submodel="Pong"/>
    <coupling from="ping.call" to="pong.call"/>
    <coupling from="pong.answer" to="ping.answer"/>
  </topology>
</model>
"""


@dataclass(frozen=True)
class Sample:
    """Messages `first` to `last` of a run: a row of the CSV file. `cpus` is what ping was bound to."""

    round: int
    mode: str
    cpus: str
    first: int
    last: int
    median_s: float
    mean_s: float


def main() -> int:
    parser = campaign.parser(__doc__, ["pingpong"], "one round, fewer messages: for a first look")
    arguments = parser.parse_args()
    names = campaign.known(arguments.experiments, "experiment", ["pingpong"])
    failed = 0

    def experiment(name: str, number: int) -> Iterator[Sample]:
        nonlocal failed
        for mode in choice.rotated(list(MODES), number):
            try:
                yield from measured(number, mode, WINDOWS[:2] if arguments.quick else WINDOWS)
            except processes.RunFailed as failure:
                failed += 1
                campaign.say(str(failure))

    status = campaign.carry_out("binding", arguments, names, experiment, report, lambda *_: False)
    return 1 if failed else status


def measured(number: int, mode: str, windows: Sequence[tuple[int, int]]) -> list[Sample]:
    """Run the pair once.

    Raises:
        RunFailed: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        (folder / "model.xmml").write_text(MODEL.format(program=PROGRAM))
        environment = places.environment(
            BENCH_COUNT=str(windows[-1][1]), BENCH_BYTES=str(SIZE_B), BENCH_OUT=str(folder / "times.json")
        )
        command = [places.tool("xmml-run") or "xmml-run", "-q", "-o", folder / "run", *MODES[mode], "model.xmml"]
        log = folder / "output.txt"
        processes.run(command, log=log, environment=environment, timeout_s=TIMEOUT_S, cwd=folder)
        at = json.loads((folder / "times.json").read_text())
        events = [json.loads(line) for line in (folder / "run/events.jsonl").read_text().splitlines()]
    cpus = next((event["cpus"]["ping"] for event in events if event["what"] == "bound"), "")
    one_way = [(after - before) / 2e9 for before, after in itertools.pairwise(at)]
    parts = [(window, one_way[slice(*window)]) for window in windows]
    return [Sample(number, mode, cpus, *w, statistics.median(own), statistics.fmean(own)) for w, own in parts]


def report(samples: Sequence[Sample], machine: str) -> str:
    """The tables."""
    rounds = len({sample.round for sample in samples})
    lines = [f"{machine}. Median of {rounds} rounds, with the least and the most in brackets.", ""]
    for title, figure in (("median", "median_s"), ("mean", "mean_s")):
        windows = sorted({(sample.first, sample.last) for sample in samples})
        head = ["", *(f"message {first + 1:,} to {last:,}" for first, last in windows), "bound"]
        rows = []
        for mode in dict.fromkeys(sample.mode for sample in samples):
            own = [sample for sample in samples if sample.mode == mode]
            times = [
                Spread.of(getattr(each, figure) * 1e6 for each in own if (each.first, each.last) == window)
                for window in windows
            ]
            bound = {each.round for each in own if each.cpus}
            rows.append([mode, *map(str, times), f"{len(bound)} of {len({each.round for each in own})}"])
        lines += [f"### One way, 1 KiB, {title} of a run [us]", "", figures.table(head, rows), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
