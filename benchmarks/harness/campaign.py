"""Rounds of named experiments, and the files that they leave: what suites over emulated networks have in common."""

from __future__ import annotations

import argparse
import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness import figures, places

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


def parser(description: str | None, experiments: Iterable[str], quick: str) -> argparse.ArgumentParser:
    """The options that every suite has; `quick` says what --quick leaves out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--experiments", help=f"of {', '.join(experiments)}; default: all")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser


def known(names: str | None, what: str, all_of_them: Iterable[str]) -> list[str]:
    """The names in a list with commas; None: all.

    Raises:
        SystemExit: one is unknown.
    """
    everything = list(all_of_them)
    chosen = names.split(",") if names else everything
    if unknown := set(chosen) - set(everything):
        raise SystemExit(f"there is no {what} {', '.join(sorted(unknown))}; there are {', '.join(everything)}")
    return chosen


def say(text: str) -> None:
    """Tells how far a round is."""
    print(f"  {text}", flush=True)


def carry_out(
    suite: str,
    arguments: argparse.Namespace,
    names: Sequence[str],
    experiment: Callable[[str, int], Iterable[S]],
    report: Callable[[Sequence[S], str], str],
    draw: Callable[[Sequence[S], str, Path], bool],
) -> int:
    """Measures `experiment` (name, round) in as many rounds as asked for, writes tables, CSV file and plot.

    Returns:
        The exit status: 1 if nothing was measured.
    """
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    machine = figures.machine()
    print(f"{machine}; {rounds} rounds of {', '.join(names)}", flush=True)
    samples: list[S] = []
    for number in range(rounds):
        begin = time.monotonic()
        for name in names:
            samples += experiment(name, number)
        say(f"round {number + 1}/{rounds}  {time.monotonic() - begin:5.1f} s")
    if not samples:
        return 1
    stem = arguments.output / f"{suite}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples, machine)
    stem.with_suffix(".md").write_text(text)
    drawn = draw(samples, machine, stem.with_suffix(".png"))
    print(f"\n{text}\n{stem}.csv, .md{', .png' if drawn else ''}")
    return 0
