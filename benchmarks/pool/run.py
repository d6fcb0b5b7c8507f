"""What objects of a pool cost: xMML beside Zenoh, Redis streams, ADIOS2 SST, files, and a program that only transfers.

python benchmarks/pool/run.py [--quick] [--rounds N] [--experiments NAME,...] [--peers NAME,...]

Every round starts every peer once per case, so that a busy minute of the machine hits all of them. All do the same: the
objects have the same twelve attributes and payloads, and what the readers have got is counted and checked. xMML is
started by xmml-run, as a user does. The peers have their attributes packed, which costs them less than fields of their
own would. Each case is passed through twice, the first time to warm up.

python benchmarks/prepare.py installs the peers. Who cannot take part, and what failed, stands in the results.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cases import EXPERIMENTS, Case
from conductor import PASSES, Conductor
from harness import campaign, choice, figures, processes
from peers import PEERS, Peer
from report import Absence, Sample, report

CASE_S, QUICK_CASE_S = 0.5, 0.02
QUICK_PARAMS = 100
LIMIT_S = 300.0


def main() -> int:
    arguments = parse()
    experiments = campaign.known(arguments.experiments, "experiment", EXPERIMENTS)
    named = campaign.known(arguments.peers, "peer", [peer.name for peer in PEERS])
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    seconds = QUICK_CASE_S if arguments.quick else CASE_S
    wanted = [peer for peer in PEERS if peer.name in named]
    peers = choice.choose(PEERS, ",".join(named))
    absences = [Absence(peer.label, "all", peer.missing() or "") for peer in wanted if peer not in peers]
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(peer.name for peer in peers)}", flush=True)
    samples: list[Sample] = []
    for number in range(rounds):
        for name in experiments:
            for case in EXPERIMENTS[name].cases:
                if arguments.quick and case.params > QUICK_PARAMS:
                    continue
                for peer in choice.rotated(peers, number):
                    if not peer.takes(name, case):
                        continue
                    try:
                        samples.append(measured(number, name, case, peer, seconds))
                    except processes.RunFailed as failure:
                        print(f"  {name}, {case.name}, {peer.name}: {failure}", flush=True)
                        # A run that fails says what became of each instance: of ten thousand, the first words must do.
                        last = textwrap.shorten(str(failure).splitlines()[-1], 300, placeholder=" ...")
                        why = f"failed in round {number + 1}: {last}"
                        absences.append(Absence(peer.label, f"{name}, {case.name}", why))
                        continue
                    told = figures.number(samples[-1].figure)
                    print(f"  {name}, {case.name}, {peer.name}: {told} {EXPERIMENTS[name].unit}", flush=True)
    if not samples:
        return 1
    stem = arguments.output / f"pool-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, absences, wanted, figures.machine())
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 1 if any(each.case != "all" for each in absences) else 0


def parse() -> argparse.Namespace:
    parser = campaign.parser(
        __doc__, EXPERIMENTS, "one round of a twentieth, without very many selectors, for a first look"
    )
    parser.add_argument("--peers", help=f"of {', '.join(peer.name for peer in PEERS)}; default: all that are here")
    return parser.parse_args()


def measured(number: int, experiment: str, case: Case, peer: Peer, seconds: float) -> Sample:
    """Run a case of one peer.

    Raises:
        RunFailed: it failed, or the readers have not got what they want.
    """
    count = peer.count(case, seconds)
    readers = 1 if case.readers else case.pairs
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        conductor = Conductor(folder, case.pairs + readers, LIMIT_S)
        environment = {**peer.environment(case, count, folder), "BENCH_CONDUCTOR": str(conductor.address)}
        try:
            processes.run(
                peer.command(case, folder),
                log=folder / "output.txt",
                environment=environment,
                timeout_s=LIMIT_S,
                cwd=folder,
                meanwhile=conductor.conduct,
            )
            sent_b = peer.sent_b((folder / "output.txt").read_text())
        finally:
            peer.clean(folder)
    writing = [each for each in conductor.reports if "begin" in each]
    reading = [each for each in conductor.reports if "begin" not in each]
    if len(writing) != case.pairs or len(reading) != readers:
        raise processes.RunFailed("not all ends have reported")
    check(reading, case, count)
    return Sample(
        number,
        experiment,
        case.name,
        peer.name,
        case.size_b,
        offered=count * case.pairs,
        received=sum(each["count"] for each in reading),
        seconds=max(each["end"] for each in conductor.reports) - min(each["begin"] for each in writing),
        processor_s=sum(each["processor_s"] for each in conductor.reports),
        sent_b=None if sent_b is None else sent_b / PASSES,
    )


def check(reading: Sequence[dict[str, float]], case: Case, count: int) -> None:
    """Compare what the readers have got with what they want.

    Raises:
        RunFailed: it is something else.
    """
    objects = case.received(count)
    total = objects if case.copied else objects * case.size_b // 8
    for each in reading:
        got, due = (each["count"], each["steps"], each["total"]), (objects, case.steps(count), total)
        if got != due:
            raise processes.RunFailed(f"objects, steps and sum are {got}, not {due}")


if __name__ == "__main__":
    sys.exit(main())
