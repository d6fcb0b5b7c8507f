"""What the supervisor takes to begin, and to start a program and see its end, beside bare posix_spawn.

python benchmarks/startup/supervisor.py [--quick] [--rounds N] [--output DIR]

Each round starts a supervisor and has it start `/bin/true` many times, one after the other, with its two captured
streams; then this process does the same without one, by posix_spawn and wait. *Begins*: from the start of the
supervisor to its first report. *Start and end*: processor time of the supervisor, or of this process, for each program,
without that of the programs. Results: a table and a CSV file with every round.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import campaign, figures
from harness.figures import Spread
from xmml_executors.executor import ProcessStart
from xmml_executors.local import LocalExecutor
from xmml_executors.open_folder import OpenFolder
from xmml_executors.protocol import Ended

PROGRAM = "/bin/true"


@dataclass(frozen=True)
class Sample:
    """A round: what the supervisor took to begin, and each start and end, by it and without it."""

    round: int
    programs: int
    begins_s: float
    supervised_s: float
    spawned_s: float


def main() -> int:
    parser = campaign.parser(__doc__, ["start-and-end"], "one round, fewer programs: for a first look")
    arguments = parser.parse_args()
    names = campaign.known(arguments.experiments, "experiment", ["start-and-end"])
    programs = 50 if arguments.quick else 1000

    def experiment(name: str, number: int) -> Iterator[Sample]:
        with tempfile.TemporaryDirectory(prefix="xmml-bench-") as folder:
            begins_s, supervised_s = supervised(Path(folder), programs)
        yield Sample(number, programs, begins_s, supervised_s, spawned(programs))

    return campaign.carry_out("supervisor", arguments, names, experiment, report, lambda *_: False)


def supervised(folder: Path, programs: int) -> tuple[float, float]:
    """Return how long the supervisor takes to begin, and its processor time for each program [s]."""
    began = time.perf_counter()
    executor = LocalExecutor(OpenFolder(folder))
    begins_s = 0.0
    before_s = 0.0
    try:
        for number in range(programs + 1):
            executor.start(ProcessStart(str(number), [PROGRAM], {}, folder, folder / "stdout", folder / "stderr"))
            reported_at = ended(executor)
            if number == 0:
                begins_s = reported_at - began
                before_s = processor_time(executor.supervisor_pid)
        own_s = processor_time(executor.supervisor_pid) - before_s
    finally:
        executor.close(folder, lambda report: None)
    return begins_s, own_s / programs


def ended(executor: LocalExecutor) -> float:
    """Wait until a program has ended; return when the first report of it came."""
    first: float | None = None
    while True:
        select.select([executor], [], [])
        reports = executor.take_reports()
        if reports is None:
            raise SystemExit("the supervisor has ended")
        first = first or time.perf_counter()
        if any(isinstance(report, Ended) for report in reports):
            return first


def processor_time(pid: int) -> float:
    """Return the processor time of a process so far, without that of its children [s]."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def spawned(programs: int) -> float:
    """Return the processor time of this process for each program that it starts itself [s]."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(programs):
        os.waitpid(os.posix_spawn(PROGRAM, [PROGRAM], os.environ), 0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / programs


def report(samples: Sequence[Sample], machine: str) -> str:
    """The table."""
    lines = [f"{machine}. Median of {len(samples)} rounds, with the least and the most in brackets.", ""]
    rows = [
        ["the supervisor begins [ms]", str(Spread.of(each.begins_s * 1e3 for each in samples))],
        ["start and end by the supervisor [ms]", str(Spread.of(each.supervised_s * 1e3 for each in samples))],
        ["start and end by posix_spawn, in Python [ms]", str(Spread.of(each.spawned_s * 1e3 for each in samples))],
    ]
    return "\n".join([*lines, figures.table(["", "time"], rows), ""])


if __name__ == "__main__":
    raise SystemExit(main())
