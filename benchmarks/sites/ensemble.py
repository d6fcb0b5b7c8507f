"""What many small coupled runs of one workflow cost the launching machine and the clusters.

python benchmarks/sites/ensemble.py [--quick] [--runs N] [--jobs N] [--rtt MS]

Two Slurm clusters, emulated on this machine (tests/testbed/README.md), say that they have cores enough for all; it
needs root, and the packages that .ci/install-test-packages names. Snakemake carries out the canals (workflows/canal,
for a minute of their time) many times with its executor `xmml`, the head of the main canal at one cluster and the rest
at the other. Meanwhile are looked at, twice a second:

* memory of what carries out runs on the launching machine, without Snakemake itself and without instances: proportional
  set size, in which what processes share counts once;
* processes of the user on each login node, sshd excepted; those that run for a moment only are counted where a look
  finds them;
* how often each queue was asked about jobs (squeue), by a program in its place.

Results: a table and a CSV file with every look.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import canal_study
from harness import figures, places
from harness.processes import tree
from testbed import Bed, why_not
from testbed.bed import SITES as KINDS
from testbed.leftovers import processes

SITES = ("alpha", "beta")
#: Of one run; the clusters say that they have cores for all.
PROGRAMS = 12
LOOK_EVERY_S = 0.5
SNAKEFILE = """
rule all:
    input: expand("tail/{number}.npy", number=range(RUNS))
rule simulate:
    input: "model.xmml"
    output: "tail/{number}.npy"
    log: "tail/{number}.log"
    shell:
        "xmml-run {input} --no-progress --quiet -p head.wave_height=0.{wildcards.number}m"
        " --result tail/levels.npy={output} > {log} 2>&1"
"""
#: Stands for squeue on a login node.
SQUEUE = """#!/bin/sh
date +%s.%N >> "$HOME/asked"
exec {squeue} "$@"
"""


@dataclass(frozen=True)
class Look:
    """What was seen at one moment.

    Attributes:
        at_s: since the beginning.
        done: runs that were done.
        launchers: processes that carry out runs on the launching machine, with supervisors and relays.
        memory_mib: of these.
        login: processes of the user on the busiest login node.
    """

    at_s: float
    done: int
    launchers: int
    memory_mib: float
    login: int


def main() -> int:
    arguments = parse()
    reason = why_not()
    if reason:
        print(f"no clusters can be made here: {reason}")
        return 0
    runs = arguments.runs or (4 if arguments.quick else 100)
    kinds = [replace(kind, cores=PROGRAMS * arguments.jobs) for kind in KINDS]
    with (
        Bed(rtt_s=arguments.rtt / 1000, kinds=kinds) as bed,
        tempfile.TemporaryDirectory(prefix="xmml-ensemble-") as folder,
    ):
        looks, asked = measure(bed, Path(folder) / "canal", runs, arguments.jobs)
    stem = arguments.output / f"ensemble-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(look) for look in looks])
    text = report(looks, asked, runs, arguments.jobs)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="4 runs")
    parser.add_argument("--runs", type=int, help="how many runs; default: 100, with --quick 4")
    parser.add_argument("--jobs", type=int, default=8, help="how many at a time (%(default)s)")
    parser.add_argument("--rtt", type=float, default=10.0, help="round-trip time between sites [ms] (%(default)s)")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(bed: Bed, folder: Path, runs: int, jobs: int) -> tuple[list[Look], dict[str, list[float]]]:
    """Carry the workflow out; return what was seen, and when each queue was asked."""
    env = {
        **os.environ,
        "TMPDIR": str(bed.temporary),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    canal_study.write(folder)
    # The sites get the program as it is, so that it must find nothing there.
    build = "mkdir build && c++ -std=c++17 -O2 -s -o build/section section.cpp $(xmml-config --cflags --libs --static)"
    subprocess.run(build, shell=True, cwd=folder, env=env, check=True)
    model = folder / "model.xmml"
    model.write_text(model.read_text().replace(' run:build="make build/section"', ""))  # once is enough
    (folder / "Snakefile").write_text(SNAKEFILE.replace("RUNS", str(runs)))
    (folder / "sites.toml").write_text(bed.sites_toml(*SITES, "laptop"))
    for name in SITES:
        watch_queue(bed, name)
    placed = "--place head=alpha --place middle=beta --place tail=beta --place picture=laptop"
    command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", str(jobs), "--quiet", "all"]
    command += ["--xmml-sites", "sites.toml", f"--xmml-options={placed}"]
    looks: list[Look] = []
    began = time.monotonic()
    with (folder / "snakemake.log").open("w") as log:
        going = bed.laptop.start(command, cwd=folder, env=env, stdout=log, stderr=log)
        while going.poll() is None:
            looks.append(look(bed, folder, began))
            time.sleep(LOOK_EVERY_S)
    if going.returncode != 0:
        raise SystemExit((folder / "snakemake.log").read_text()[-5000:])
    return looks, {name: times_of(bed, name) for name in SITES}


def watch_queue(bed: Bed, name: str) -> None:
    """Have every squeue of the user at a cluster noted."""
    site = bed.site(name)
    real = site.run("command -v squeue", site.users[0]).stdout.strip()
    site.run(
        f"mkdir -p bin && printf %s {shlex.quote(SQUEUE.format(squeue=real))} > bin/squeue && chmod +x bin/squeue && "
        """: > asked && printf 'export PATH="$HOME/bin:$PATH"\\n' > .bashrc""",
        site.users[0],
    )


def times_of(bed: Bed, name: str) -> list[float]:
    return [float(line) for line in (bed.site(name).home() / "asked").read_text().split()]


def look(bed: Bed, folder: Path, began: float) -> Look:
    """See what there is at the moment."""
    begun = dict.fromkeys(each for pid in of_folder(folder) if is_launcher(pid) for each in tree(pid))
    launchers = [pid for pid in begun if is_launcher(pid)]
    memory_kib = sum(proportional_kib(pid) for pid in launchers)
    login = max(sum(f" on {name}-login: " in line for line in processes(bed, name).values()) for name in SITES)
    done = len(list((folder / "tail").glob("*.npy"))) if (folder / "tail").is_dir() else 0
    return Look(time.monotonic() - began, done, len(launchers), memory_kib / 1024, login)


def of_folder(folder: Path) -> list[int]:
    """The processes that work in a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and Path(os.readlink(entry / "cwd")) == folder:
                found.append(int(entry.name))
    return found


def is_launcher(pid: int) -> bool:
    """Whether a process carries out runs: `xmml-run`, what does so for a whole workflow, a supervisor, a relay."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        names = {word.rpartition(b"/")[2] for word in words}
        return bool(names & {b"xmml_run", b"xmml_run.run_server", b"mto"})
    return False


def proportional_kib(pid: int) -> int:
    """The proportional set size of a process; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def most_in(times: Sequence[float], window_s: float) -> int:
    """How many of these moments lie within so many seconds at most."""
    return max((sum(at <= each < at + window_s for each in times) for at in times), default=0)


def report(looks: Sequence[Look], asked: dict[str, list[float]], runs: int, jobs: int) -> str:
    """The table."""
    took_s = looks[-1].at_s
    rows = [
        ["time [s]", f"{took_s:.0f}"],
        ["memory of the launchers, most [MiB]", f"{max(look.memory_mib for look in looks):.0f}"],
        ["processes of the launchers, most", str(max(look.launchers for look in looks))],
        ["processes on a login node, most", str(max(look.login for look in looks))],
        ["processes on a login node, median", str(sorted(look.login for look in looks)[len(looks) // 2])],
        ["questions to a queue per 6 s, mean", f"{max(map(len, asked.values())) * 6 / took_s:.2f}"],
        ["questions to a queue within 5.5 s, most", str(max(most_in(times, 5.5) for times in asked.values()))],
    ]
    return (
        f"{figures.machine()}. Two Slurm clusters and the launching machine, emulated on the same machine.\n\n"
        f"### {runs} coupled runs of a workflow, {jobs} at a time\n\n{figures.table(['', ''], rows)}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
