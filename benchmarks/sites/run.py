"""How soon a run over two clusters begins, and what it costs sites and the launching machine while it goes on.

python benchmarks/sites/run.py [--quick] [--rounds N] [--seconds S] [--rtt MS] [--instances N]

Two Slurm clusters, emulated on this machine with sshd, firewalls and links of 1 Gbit/s (tests/testbed/README.md); it
needs root, and the packages that .ci/install-test-packages names. The clusters are idle. A model of two instances, one
at each cluster, and ten small files is run by one command:

* *begin*: from `xmml-run` to the moment when the last instance has joined the run; the first run of a round must send
  the files, the second finds them at the sites. *Skew* is the time between the joining of the first and of the last.
* *launcher*: processor time that `xmml-run` takes in all, planning included.
* *meanwhile*: while the instances talk for some seconds, commands that each site was given over ssh, and processor time
  of `xmml-run`, its threads included.

With more instances than two each is inline code, those of a site in one process, and the clusters say that they have
cores enough for all; nothing is sent.

Results: a table and a CSV file with every figure.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from harness import figures, places
from harness.events import times_of
from harness.figures import Spread
from many import Many
from testbed import Bed, why_not
from testbed.bed import SITES as KINDS
from testbed.pair import Pair

SITES = ("alpha", "beta")
FILES = 10
FILE_B = 10_000
#: Between two words of an instance.
PAUSE_S = 0.1
LIMIT_S = 120.0


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        sent: whether the files had to be sent.
        begin_s: from the command to the last instance that joined.
        skew_s: from the first to the last.
        seconds: how long it was looked at after that.
        commands: that the busiest site was given in these seconds.
        cpu_s: of `xmml-run` in these seconds.
        end_s: from the end of the instances to the end of the command.
        launcher_s: processor time of `xmml-run` in all.
    """

    round: int
    sent: bool
    begin_s: float
    skew_s: float
    seconds: float
    commands: int
    cpu_s: float
    end_s: float
    launcher_s: float


def main() -> int:
    arguments = parse()
    reason = why_not()
    if reason:
        print(f"no clusters can be made here: {reason}")
        return 0
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    seconds = arguments.seconds or (5.0 if arguments.quick else 20.0)
    samples: list[Sample] = []
    kinds = [replace(kind, cores=max(kind.cores, arguments.instances)) for kind in KINDS]
    with (
        Bed(rtt_s=arguments.rtt / 1000, kinds=kinds) as bed,
        tempfile.TemporaryDirectory(prefix="xmml-sites-") as folder,
    ):
        for number in range(rounds):
            for sent in (True, False) if arguments.instances == 2 else (False,):
                if sent:
                    forget(bed)
                where = Path(folder) / f"{number}-{sent:d}"
                samples.append(measure(bed, where, number, sent, seconds, arguments.instances))
                print(f"  {samples[-1]}", flush=True)
    stem = arguments.output / f"sites-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, arguments.rtt, arguments.instances)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, a few seconds each")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--seconds", type=float, help="how long a run is looked at; default: 20, with --quick 5")
    parser.add_argument("--rtt", type=float, default=10.0, help="round-trip time between sites [ms] (%(default)s)")
    parser.add_argument("--instances", type=int, default=2, help="how many instances the model has (%(default)s)")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def forget(bed: Bed) -> None:
    """Let no site have any file of an earlier run."""
    for name in SITES:
        shutil.rmtree(bed.site(name).home() / "xmml", ignore_errors=True)


def measure(bed: Bed, folder: Path, number: int, sent: bool, seconds: float, instances: int) -> Sample:
    """Run the model once."""
    steps, places = round(seconds / PAUSE_S), dict(zip(("left", "right"), SITES, strict=True))
    if instances == 2:
        pair = Pair(bed, folder, steps=steps, pause=PAUSE_S)
        for index in range(FILES):
            (folder / f"file{index}").write_bytes(bytes([index]) * FILE_B)
    else:
        pair = many = Many(bed, folder, SITES, instances, steps=steps, pause=PAUSE_S)
        places = many.places
    began = time.time()
    shared = [] if instances == 2 else ["--hosts", "1"]  # they would have a process for each core
    run = pair.start(bed.sites_toml(*SITES), places, *shared, is_direct=False)
    try:
        joined = await_events(folder / "run", "joined", len(places), run)
        commands = [commands_at(bed, name) for name in SITES]
        cpu_s, looked_from = cpu_of(run.process.program), time.time()
        left = await_events(folder / "run", "left", len(places), run)
        spent_s, looked_s = cpu_of(run.process.program) - cpu_s, time.time() - looked_from
        given = max(commands_at(bed, name) - before for name, before in zip(SITES, commands, strict=True))
        launcher_s = spent_s + cpu_s
        while run.process.poll() is None:
            with contextlib.suppress(OSError):  # it has just ended
                launcher_s = cpu_of(run.process.program)
            time.sleep(0.05)
        if run.wait(LIMIT_S) != 0:
            raise SystemExit(f"the run failed:\n{run.output}")
    finally:
        pair.end()
    is_sent = any("staged, 0 of them sent" not in line for line in run.lines if " staged, " in line)
    if is_sent != sent and instances == 2:
        raise SystemExit(f"the files were {'sent' if is_sent else 'not sent'}:\n{run.output}")
    begin_s, skew_s, end_s = joined[-1] - began, joined[-1] - joined[0], time.time() - left[-1]
    return Sample(number, sent, begin_s, skew_s, looked_s, given, spent_s, end_s, launcher_s)


def await_events(folder: Path, what: str, count: int, run: Any) -> list[float]:
    """Wait until a run has noted so many events of a kind; return their times, by the clock."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until and run.process.poll() is None:
        times = times_of(folder / "events.jsonl", what)
        if len(times) >= count:
            return times
        time.sleep(0.05)
    times = times_of(folder / "events.jsonl", what)
    if len(times) >= count:
        return times
    raise SystemExit(f"not {count} instances have {what}:\n{run.output}")


def commands_at(bed: Bed, site: str) -> int:
    """How many commands the sshd of a site has started so far."""
    return (bed.site(site).shared / "log" / "sshd.log").read_text().count("Starting session: command")


def cpu_of(pid: int) -> float:
    """Processor time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(samples: Sequence[Sample], rtt_ms: float, instances: int) -> str:
    """The table."""
    no_files = "files already there" if instances == 2 else f"{instances} instances, no files"
    rounds = 1 + max(sample.round for sample in samples)
    rows = []
    for label, sent in ((f"{FILES} files of {FILE_B // 1000} kB sent", True), (no_files, False)):
        mine = [sample for sample in samples if sample.sent is sent]
        if not mine:
            continue
        rows.append(
            [
                label,
                str(Spread.of(sample.begin_s for sample in mine)),
                str(Spread.of(sample.skew_s for sample in mine)),
                str(Spread.of(sample.commands / sample.seconds for sample in mine)),
                str(Spread.of(100 * sample.cpu_s / sample.seconds for sample in mine)),
                str(Spread.of(sample.end_s for sample in mine)),
                str(Spread.of(sample.launcher_s for sample in mine)),
            ]
        )
    head = ["", "begin [s]", "skew [s]", "commands per site [1/s]", "launcher [% of a core]", "end [s]"]
    head.append("launcher in all [s]")
    return (
        f"{figures.machine()}. Median of {rounds} rounds, with the least and the most in brackets. Two idle Slurm "
        f"clusters and the launching machine, emulated on the same machine, {rtt_ms:g} ms there and back.\n\n"
        f"### Runs over two clusters\n\n{figures.table(head, rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
