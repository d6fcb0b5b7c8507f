"""Feeds the reader, the checks and the analyses with random inputs, and writes down what came of it.

    python tests/fuzz/campaign.py --inputs 1000000 --seed 1 --summary tests/fuzz/campaign.txt

What fails is saved as a folder below tests/data/documents/fuzz, and from then on is tried by every `make test`.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "fuzz"), str(ROOT / "tests" / "support")]

from bounds import MOST_BYTES, MOST_SECONDS, TooSlow, bounded_memory, bounded_time  # noqa: E402
from targets import TARGETS, Case, write  # noqa: E402

#: Where inputs that failed are kept.
SAVED = ROOT / "tests" / "data" / "documents" / "fuzz"


@dataclass
class Tally:
    """What came of the inputs of one target."""

    inputs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    slowest_seed: str = ""
    codes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


def cases(target: str, seed: int, count: int, first: int = 0) -> Iterator[tuple[str, Case]]:
    """Yield cases of a target, each with the seed that it was made from."""
    for number in range(first, first + count):
        own = f"{target}/{seed}/{number}"
        yield own, TARGETS[target].make(random.Random(own))


def attempt(target: str, case: Case, folder: Path, seconds: float = MOST_SECONDS) -> list[str]:
    """Try one case in an empty folder; returns the codes of its problems.

    Raises:
        BaseException: what the case brings about and should not.
    """
    with bounded_time(seconds):
        return list(TARGETS[target].attempt(case, folder))


def campaign(counts: Mapping[str, int], seed: int, save: Path | None) -> dict[str, Tally]:
    """Try so many cases of each target; save those that fail, one of each kind of failure."""
    tallies: dict[str, Tally] = {}
    for target, count in counts.items():
        tally = tallies[target] = Tally()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
            folder = Path(name)
            for own, case in cases(target, seed, count):
                started = time.perf_counter()
                try:
                    tally.codes.update(set(attempt(target, case, folder)))
                except KeyboardInterrupt:
                    raise
                except (Exception, TooSlow) as error:
                    _note(tally, target, case, error, own, save)
                took = time.perf_counter() - started
                if took > tally.slowest:
                    tally.slowest, tally.slowest_seed = took, own
                tally.inputs += 1
                tally.seconds += took
                for path in folder.iterdir():
                    path.unlink()
        print(
            f"{target:12} {tally.inputs:9,} {tally.seconds:8.1f} s  {sum(tally.failures.values())} failures", flush=True
        )
    return tallies


def _note(tally: Tally, target: str, case: Case, error: BaseException, own: str, save: Path | None) -> None:
    kind = _kind(error)
    if kind not in tally.failures:
        print(f"{own}: {kind}", flush=True)
        if save is not None:
            folder = save / target / hashlib.sha256(repr(sorted(case.items())).encode()).hexdigest()[:12]
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write(case, folder)
    tally.failures[kind] += 1


def _kind(error: BaseException) -> str:
    """Return where and what an error is: failures of one kind are told once."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/xmml/" in frame.filename]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "the promises"
    what = str(error).splitlines()[0][:160] if str(error) else ""
    return f"{type(error).__name__} at {place}" + (f": {what}" if not isinstance(error, TooSlow) else "")


def shares(total: int) -> dict[str, int]:
    """Return how many inputs each target gets of a total."""
    weights = sum(target.weight for target in TARGETS.values())
    return {name: -(-total * target.weight // weights) for name, target in TARGETS.items()}


def summary(tallies: Mapping[str, Tally], seed: int, started: float) -> str:
    """Return the summary of a campaign as text."""
    total = sum(tally.inputs for tally in tallies.values())
    seconds = sum(tally.seconds for tally in tallies.values())
    failures = sum(sum(tally.failures.values()) for tally in tallies.values())
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(started))
    python = ".".join(str(part) for part in sys.version_info[:3])
    lines = [
        "What `make fuzz` found when it was run last. An input fails if it raises anything but ModelError,",
        f"takes more than {MOST_SECONDS} s of processor time or {MOST_BYTES // 2**30} GiB, gives a problem without",
        "a known code or a place in its file, or a model that cannot be written, read again as the same, analysed",
        "and drawn.",
        "",
        f"Begun {date}, seed {seed}, Python {python}:",
        f"{total:,} inputs in {seconds:,.0f} s, {failures} failures.",
        "",
        f"{'target':12} {'inputs':>10} {'seconds':>8} {'slowest':>9} {'failures':>8}  distinct problem codes",
    ]
    for name, tally in tallies.items():
        codes = f"{len(tally.codes)}: {' '.join(sorted(tally.codes))}" if tally.codes else "-"
        slowest, failed = f"{tally.slowest * 1000:.1f} ms", sum(tally.failures.values())
        lines.append(f"{name:12} {tally.inputs:>10,} {tally.seconds:>8.1f} {slowest:>9} {failed:>8}  {codes}")
    lines += ["", "Slowest input of each target (remake it with `--remake SEED`):"]
    lines += [f"  {tally.slowest_seed}" for tally in tallies.values()]
    found = [
        f"  {name}: {kind} ({number})" for name, tally in tallies.items() for kind, number in tally.failures.items()
    ]
    return "\n".join([*lines, *(["", "Failures:", *found] if found else []), ""])


def remake(own: str, folder: Path) -> None:
    """Write the case that a seed stands for into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write(TARGETS[own.partition("/")[0]].make(random.Random(own)), folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a campaign."""
    parser = argparse.ArgumentParser(description="Feed xMML with random inputs.")
    parser.add_argument("--inputs", type=int, default=100_000, help="of all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--summary", type=Path, help="write the summary into this file as well")
    parser.add_argument("--no-save", action="store_true", help="do not keep inputs that fail")
    parser.add_argument("--remake", metavar="SEED", help="only write the input of this seed into ./remade")
    options = parser.parse_args(arguments)
    if options.remake:
        remake(options.remake, Path("remade"))
        return 0
    counts = shares(options.inputs)
    if options.target:
        counts = dict.fromkeys(options.target, options.inputs // len(options.target))
    started = time.time()
    with bounded_memory():
        tallies = campaign(counts, options.seed, None if options.no_save else SAVED)
    text = summary(tallies, options.seed, started)
    print(text)
    if options.summary:
        options.summary.write_text(text, encoding="utf-8")
    return 1 if any(tally.failures for tally in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
