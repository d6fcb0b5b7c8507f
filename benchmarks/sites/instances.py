"""What many instances at one site cost the launching machine, and how soon they have joined.

python benchmarks/sites/instances.py [--quick] [--rounds N] [--instances N] [--programs]

The site has no queue; it is this machine, reached over ssh through an sshd of its own on the loopback device. Each
instance is inline code, all of them share one process there, and each exchanges five messages with one other. So what
is measured is the launch, the connections of the instances to the coordinator, which pass the ssh connection, and the
end. Both transports take part in each round, and one run without a site; who begins alternates.

With `--programs` each instance is a process, a Python program that imports xmml and NumPy.

Results: a table and a CSV file with every figure.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

from harness import figures, places
from harness.events import times_of
from harness.figures import Spread
from many import PROGRAM, model_text
from needs import missing
from sshd import Sshd, running_sshd

#: A run without a site, to compare with.
HERE = "no site"
WAYS = ("openssh", "asyncssh", HERE)
STEPS = 5
#: On a busy machine instances must not give up before all have joined [s].
PATIENCE_S = 900


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        way: the transport, or `HERE`.
        seconds: from the start of the command to its end.
        joined_s: from the start of the command until all instances have joined the run.
        launcher_s: processor time of `xmml-run` in all.
        memory_mib: most memory of `xmml-run`.
    """

    round: int
    way: str
    seconds: float
    joined_s: float
    launcher_s: float
    memory_mib: float


def main() -> int:
    arguments = parse()
    if reason := missing("sshd"):
        print(f"no site can be made here: {reason}")
        return 0
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    instances = arguments.instances or (50 if arguments.quick else 200 if arguments.programs else 1000)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="xmml-instances-") as folder, running_sshd(Path(folder) / "sshd") as server:
        for number in range(rounds):
            for way in WAYS[:: 1 if number % 2 == 0 else -1]:
                where = Path(folder) / f"{way}-{number}"
                samples.append(measure(server, where, number, way, instances, are_programs=arguments.programs))
                print(f"  {samples[-1]}", flush=True)
    kind = "programs" if arguments.programs else "instances"
    stem = arguments.output / f"{kind}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, instances, are_programs=arguments.programs)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of 50 instances")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--instances", type=int, help="default: 1,000, of programs 200, with --quick 50")
    parser.add_argument("--programs", action="store_true", help="each instance is a program, not inline code")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(server: Sshd, folder: Path, number: int, way: str, instances: int, *, are_programs: bool) -> Sample:
    """Run the model once."""
    folder.mkdir()
    couples = [(f"left{each}", f"right{each}") for each in range(instances // 2)]
    (folder / "model.xmml").write_text(model_text(couples, STEPS, 0.0, "talker.py" if are_programs else ""))
    (folder / "talker.py").write_text(PROGRAM.format(pause=0.0))
    command = [str(Path(sys.executable).with_name("xmml-run")), "model.xmml", "--quiet", "-o", "run"]
    if not are_programs:
        command += ["--hosts", "1"]
    if way != HERE:
        (folder / "sites.toml").write_text(
            f'[site.laptop]\n[site.far]\nssh = "{server.name}"\ntransport = "{way}"\ncores = {instances}\n'
            f'python = "{sys.executable}"\nenv = {{ XMML_ANSWER_LIMIT_S = "{PATIENCE_S}" }}\n'
        )
        command += ["--sites", "sites.toml", *(f"--place={name}=far" for couple in couples for name in couple)]
    patience = dict.fromkeys(("XMML_AWAY_LIMIT_S", "XMML_SITE_LEASE_S", "XMML_ANSWER_LIMIT_S"), str(PATIENCE_S))
    began, began_at = time.monotonic(), time.time()
    run = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **patience, "XMML_SSH_CONFIG": str(server.config)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode != 0:
        raise SystemExit(f"the run ({way}) ended with exit status {run.returncode}")
    seconds = time.monotonic() - began
    joined = times_of(folder / "run" / "events.jsonl", "joined")
    if len(joined) != instances:
        raise SystemExit(f"{len(joined)} instances of {instances} have joined ({way})")
    launcher_s, memory_mib = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    return Sample(number, way, seconds, joined[-1] - began_at, launcher_s, memory_mib)


def report(samples: Sequence[Sample], instances: int, *, are_programs: bool) -> str:
    """The table."""
    rows = []
    for way in WAYS:
        mine = [sample for sample in samples if sample.way == way]
        rows.append(
            [
                way,
                str(Spread.of(sample.joined_s for sample in mine)),
                str(Spread.of(sample.launcher_s for sample in mine)),
                str(Spread.of(sample.memory_mib for sample in mine)),
                str(Spread.of(sample.seconds for sample in mine)),
            ]
        )
    head = ["", "all have joined [s]", "launcher in all [s of a processor]", "launcher, most [MiB]", "takes [s]"]
    rounds = 1 + max(sample.round for sample in samples)
    what = "Python programs" if are_programs else "instances in one process"
    return (
        f"{figures.machine()}. Median of {rounds} rounds, with the least and the most in brackets.\n\n"
        f"### {instances:,} {what} at a site without a queue\n\n{figures.table(head, rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
