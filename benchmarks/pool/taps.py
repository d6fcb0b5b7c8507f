"""What a tap costs the program that it looks at: its processor time for a message, and how many it sends in a second.

python benchmarks/pool/taps.py [--quick] [--rounds N]

A writer sends messages to a reader as fast as they go, started by xmml-run as a user does. In each round a tap joins
and takes what it is shown, is stopped, and is killed; the writer says meanwhile what it has used. The floor is the
same writer before the tap came, in the same run.

Results: a table and a CSV file with every figure.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import figures, places
from harness.figures import Spread

SIZES = (8, 804 * 1024)
PHASES = ("no tap", "a tap that takes", "a stopped tap", "after it was killed")
PHASE_S, QUICK_PHASE_S = 3.0, 0.5
#: Until a phase is what it is called: a tap has joined, its limit is reached, the writer knows that it is gone.
SETTLING_S = 2.0
LIMIT_S = 60.0
#: What is held for the tap.
LIMIT = "16MB"

WRITER = """import json, os, time, numpy as np, xmml
EVERY_S = 0.1
with xmml.Instance() as me:
    while me.reuse():
        data = np.zeros(int(me.param("size")) // 8)
        sent, next_word = 0, time.monotonic()
        with open(me.param("words"), "w", buffering=1) as words:
            while not os.path.exists(me.param("enough")):
                for _ in range(20):
                    me.send("field", data)
                sent += 20
                if time.monotonic() >= next_word:
                    next_word += EVERY_S
                    print(json.dumps([time.monotonic(), time.process_time(), sent]), file=words)
"""
READER = """import xmml
with xmml.Instance() as me:
    while me.reuse():
        while me.receive_or_end("field") is not None:
            pass
"""
TAP = """import xmml
with xmml.Instance() as me:
    for _ in me.objects("objects"):
        pass
"""
MODEL = """<model id="tapped" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">
  <definitions>
    <submodel id="Writer"><timescale delta="1 s" total="1 s"/>
      <param id="size" value="{size_b}"/><param id="words" value="{folder}/words"/>
      <param id="enough" value="{folder}/enough"/><ports><out id="field" operator="Oi"/></ports>
      <implementation language="python" path="writer.py"/></submodel>
    <submodel id="Reader"><timescale delta="1 s" total="1 s"/><ports><in id="field" operator="S"/></ports>
      <implementation language="python" path="reader.py"/></submodel>
  </definitions>
  <topology><instance id="writer" submodel="Writer" run:order="free"/>
    <instance id="reader" submodel="Reader" run:order="free"/>
    <coupling from="writer.field" to="reader.field"/></topology>
</model>
"""


@dataclass(frozen=True)
class Sample:
    """One phase of one run.

    Attributes:
        processor_us: of the writer, for a message.
        messages_per_s: that it sent.
    """

    round: int
    size_b: int
    phase: str
    processor_us: float
    messages_per_s: float


def main() -> int:
    arguments = parse()
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    samples: list[Sample] = []
    for number in range(rounds):
        for size_b in SIZES[:: 1 if number % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory(prefix="xmml-taps-") as folder:
                samples += measure(Path(folder), number, size_b, QUICK_PHASE_S if arguments.quick else PHASE_S)
            print(f"  {samples[-len(PHASES) :]}", flush=True)
    stem = arguments.output / f"taps-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = report(samples)
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, half a second for each phase")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    return parser.parse_args()


def measure(folder: Path, number: int, size_b: int, seconds: float) -> list[Sample]:
    """Go through the phases in one run."""
    for name, text in (("writer", WRITER), ("reader", READER), ("watch", TAP)):
        (folder / f"{name}.py").write_text(text)
    (folder / "model.xmml").write_text(MODEL.format(size_b=size_b, folder=folder))
    commands = Path(sys.executable).parent
    run = subprocess.Popen(
        [commands / "xmml-run", "model.xmml", "--quiet", "-o", "run"], cwd=folder, stdout=subprocess.DEVNULL
    )
    tap: subprocess.Popen[bytes] | None = None
    found = []
    try:
        wait_for_word(folder, run)
        for phase in PHASES:
            if phase == "a tap that takes":
                command = [commands / "xmml", "tap", "run", "writer.field", "--limit", LIMIT, "--", sys.executable]
                tap = subprocess.Popen([*command, "watch.py"], cwd=folder, stderr=subprocess.DEVNULL)
            elif tap is not None:
                tap.send_signal(signal.SIGSTOP if phase == "a stopped tap" else signal.SIGKILL)
            time.sleep(SETTLING_S)
            first = last_word(folder)
            last = word_after(first[0] + seconds, folder)
            spent_s, used_s, sent = (after - before for before, after in zip(first, last, strict=True))
            found.append(Sample(number, size_b, phase, 1e6 * used_s / sent, sent / spent_s))
        (folder / "enough").touch()
        if run.wait(LIMIT_S) != 0:
            raise SystemExit(f"the run ended with exit status {run.returncode}")
    finally:
        for process in (tap, run):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    return found


def wait_for_word(folder: Path, run: subprocess.Popen[bytes]) -> None:
    """Wait until the writer sends."""
    until = time.monotonic() + LIMIT_S
    while not (folder / "words").exists() or (folder / "words").read_text().count("\n") < 2:
        if run.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the run has not begun (exit status {run.returncode})")
        time.sleep(0.05)


def last_word(folder: Path) -> list[float]:
    """Return what the writer has said last: when that was, its processor time, and how many messages it has sent."""
    words: list[float] = json.loads((folder / "words").read_text().split("\n")[-2])
    return words


def word_after(moment: float, folder: Path) -> list[float]:
    """Wait until the writer says something so late, and return it."""
    until = time.monotonic() + LIMIT_S
    while (word := last_word(folder))[0] < moment:
        if time.monotonic() > until:
            raise SystemExit(f"the writer sends nothing for {LIMIT_S:g} s")
        time.sleep(0.01)
    return word


def report(samples: Sequence[Sample]) -> str:
    """The tables."""
    rounds = 1 + max(sample.round for sample in samples)
    parts = [f"{figures.machine()}. Median of {rounds} rounds, with the least and the most in brackets."]
    for size_b in SIZES:
        rows = []
        floor = Spread.of(each.processor_us for each in samples if each.size_b == size_b and each.phase == PHASES[0])
        for phase in PHASES:
            mine = [each for each in samples if each.size_b == size_b and each.phase == phase]
            used = Spread.of(each.processor_us for each in mine)
            rate = Spread.of(each.messages_per_s for each in mine)
            rows.append([phase, str(used), figures.number(used.median / floor.median), str(rate)])
        head = ["", "processor time of the writer for a message [us]", "over no tap", "messages [1/s]"]
        parts.append(f"### A tap of messages of {figures.size(size_b)}\n\n{figures.table(head, rows)}")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
