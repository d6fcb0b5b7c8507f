"""What many instances at one site cost the launching machine: processor time of `xmml-run` in all, planning included.

python benchmarks/sites/hosted.py [--quick] [--rounds N] [--instances N]

The site has no queue; it is this machine, reached over ssh through an sshd of its own on the loopback device. Each
instance is inline code, all of them share one process there, and each exchanges five messages with one other. So what
is measured is the launch, the connections of the instances to the coordinator, which pass the ssh connection, and the
end. Both transports take part in each round, and who begins alternates.

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
from harness.figures import Spread
from many import model_text
from needs import missing
from sshd import Sshd, running_sshd

TRANSPORTS = ("openssh", "asyncssh")
STEPS = 5
#: On a busy machine instances must not give up before all have joined [s].
PATIENCE_S = 900


@dataclass(frozen=True)
class Sample:
    """One run.

    Attributes:
        seconds: from the start of the command to its end.
        launcher_s: processor time of `xmml-run` in all.
        memory_mib: most memory of `xmml-run`.
    """

    round: int
    transport: str
    seconds: float
    launcher_s: float
    memory_mib: float


def main() -> int:
    arguments = parse()
    if reason := missing("sshd"):
        print(f"no site can be made here: {reason}")
        return 0
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    instances = arguments.instances or (50 if arguments.quick else 1000)
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="xmml-hosted-") as folder, running_sshd(Path(folder) / "sshd") as server:
        for number in range(rounds):
            for transport in TRANSPORTS[:: 1 if number % 2 == 0 else -1]:
                where = Path(folder) / f"{transport}-{number}"
                samples.append(measure(server, where, number, transport, instances))
                print(f"  {samples[-1]}", flush=True)
    stem = arguments.output / f"hosted-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, instances)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of 50 instances")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--instances", type=int, help="default: 1,000, with --quick 50")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(server: Sshd, folder: Path, number: int, transport: str, instances: int) -> Sample:
    """Run the model once."""
    folder.mkdir()
    couples = [(f"left{each}", f"right{each}") for each in range(instances // 2)]
    (folder / "model.xmml").write_text(model_text(couples, STEPS, 0.0))
    (folder / "sites.toml").write_text(
        f'[site.laptop]\n[site.far]\nssh = "{server.name}"\ntransport = "{transport}"\ncores = {instances}\n'
        f'python = "{sys.executable}"\nenv = {{ XMML_ANSWER_LIMIT_S = "{PATIENCE_S}" }}\n'
    )
    patience = dict.fromkeys(("XMML_AWAY_LIMIT_S", "XMML_SITE_LEASE_S"), str(PATIENCE_S))
    command = [str(Path(sys.executable).with_name("xmml-run")), "model.xmml", "--sites", "sites.toml", "--quiet"]
    command += ["--hosts", "1", *(f"--place={name}=far" for couple in couples for name in couple)]
    began = time.monotonic()
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
        raise SystemExit(f"the run over {transport} ended with exit status {run.returncode}")
    seconds = time.monotonic() - began
    return Sample(number, transport, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def report(samples: Sequence[Sample], instances: int) -> str:
    """The table."""
    rows = []
    for transport in TRANSPORTS:
        mine = [sample for sample in samples if sample.transport == transport]
        rows.append(
            [
                transport,
                str(Spread.of(sample.launcher_s for sample in mine)),
                str(Spread.of(sample.memory_mib for sample in mine)),
                str(Spread.of(sample.seconds for sample in mine)),
            ]
        )
    head = ["", "launcher in all [s of a processor]", "launcher, most [MiB]", "takes [s]"]
    rounds = 1 + max(sample.round for sample in samples)
    return (
        f"{figures.machine()}. Median of {rounds} rounds, with the least and the most in brackets.\n\n"
        f"### {instances:,} instances at a site without a queue\n\n{figures.table(head, rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
