"""What objects of a pool cost beside messages: small ones, fields of forecasts, and those that nobody wants.

python benchmarks/pool/run.py [--quick] [--rounds N] [--experiments NAME,...]

Each run is started by xmml-run, as a user does, and measures pools and message couplings of the same two programs one
after the other, so that both have the same moment of the machine. The readers look at every element of a field.

objects   objects of 8 bytes for one reader, per second
unwanted  objects that no reader chooses, per second
fields    GB/s of fields of 804 KiB, 4.4 MiB and 15 MiB
readers   objects of 8 bytes per second, each for one of so many readers in one process, which select by equality
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import figures, places, processes

HERE = Path(__file__).parent
FIELDS = (804 * 1024, 4_613_734, 15 * 1024 * 1024)
READERS = (1, 10, 100)
LIMIT_S = 600


@dataclass(frozen=True)
class Sample:
    """One figure of one round; `unit` is 1/s or GB/s."""

    round: int
    experiment: str
    language: str
    way: str
    parameter: int
    figure: float
    unit: str


@dataclass(frozen=True)
class Case:
    """What one run measures.

    Attributes:
        parameter: bytes of an object, or how many readers there are.
        count: how many objects.
    """

    experiment: str
    language: str
    parameter: int
    count: int


def main() -> int:
    arguments = parse()
    cases = [case for case in all_cases(arguments.quick) if case.experiment in arguments.experiments]
    rounds = arguments.rounds or (1 if arguments.quick else 5)
    print(f"{figures.machine()}; {rounds} rounds of {', '.join(arguments.experiments)}", flush=True)
    samples: list[Sample] = []
    failures = 0
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as folder:
        build(Path(folder))
        for number in range(rounds):
            for place, case in enumerate(cases):
                try:
                    samples += measured(case, Path(folder), number, number * len(cases) + place)
                except processes.RunFailed as failure:
                    print(f"  {case.experiment} in {case.language}: {failure}", flush=True)
                    failures += 1
    if not samples:
        return 1
    stem = arguments.output / f"pool-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    figures.write_csv(stem.with_suffix(".csv"), [asdict(sample) for sample in samples])
    text = f"{figures.machine()}\n\n{table(samples)}\n"
    stem.with_suffix(".md").write_text(text)
    print(f"\n{text}\n{stem}.csv, .md")
    return 1 if failures else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round of a tenth, for a first look")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 1")
    known = ("objects", "unwanted", "fields", "readers")
    parser.add_argument(
        "--experiments",
        type=lambda text: text.split(","),
        default=list(known),
        help=f"of {', '.join(known)}; default: all",
    )
    parser.add_argument("--output", type=Path, default=places.RESULTS, help="folder for the results (%(default)s)")
    arguments = parser.parse_args()
    unknown = set(arguments.experiments) - set(known)
    if unknown:
        parser.error(f"there is no experiment {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return arguments


def all_cases(quick: bool) -> Iterator[Case]:
    """Return what is measured in each round."""
    share = 10 if quick else 1
    for language, count in (("python", 100_000), ("c", 400_000)):
        yield Case("objects", language, 8, count // share)
        yield Case("unwanted", language, 8, count // share)
        for size in FIELDS:
            yield Case("fields", language, size, max(20, 400 * FIELDS[0] // size // share))
    for readers in READERS:
        yield Case("readers", "python", readers, 40_000 // share)


def build(folder: Path) -> None:
    """Compile the programs in C into the folder of the models."""
    for program in (HERE / "programs").iterdir():
        (folder / program.name).write_text(program.read_text())
    config = places.tool("xmml-config")
    for name in ("writer", "reader"):
        command = f"cc -std=c99 -O2 -o {folder}/{name} {folder}/{name}.c $({config} --cflags --libs)"
        processes.run(
            ["sh", "-c", command], log=folder / "build.log", environment=places.environment(), timeout_s=LIMIT_S
        )


def measured(case: Case, folder: Path, number: int, run: int) -> list[Sample]:
    """Run a case, and return its figures.

    Raises:
        RunFailed: the run failed.
    """
    model = folder / "model.xmml"
    model.write_text(model_of(case))
    results = folder / f"run{run}"
    command = [places.tool("xmml-run"), model, "-o", results]
    processes.run(command, log=folder / "run.log", environment=places.environment(), timeout_s=LIMIT_S)
    who = "w" if case.experiment in ("unwanted", "readers") else "r"
    found = []
    for way, seconds in json.loads((results / "instances" / who / "stdout").read_text()).items():
        rate = case.count / seconds
        is_field = case.experiment == "fields"
        figure = rate * case.parameter / 1e9 if is_field else rate
        unit = "GB/s" if is_field else "1/s"
        found.append(Sample(number, case.experiment, case.language, way, case.parameter, figure, unit))
        told = f"{case.experiment}, {case.language}, {case.parameter}: {way} {figures.number(figure)} {unit}"
        print(f"  {told}", flush=True)
    return found


def model_of(case: Case) -> str:
    """Return the model: a writer and its readers, joined by a pool and by messages."""
    many = case.parameter if case.experiment == "readers" else 0
    values = {
        "count": case.count,
        "elements": 1 if many else case.parameter // 8,
        "readers": many,
        "wanted": 0 if case.experiment == "unwanted" else case.count,
    }
    params = "".join(f'<param id="{name}" value="{value}"/>' for name, value in values.items())
    select = {"unwanted": "param = 9", "readers": "param = $index"}.get(case.experiment, "param = 0")

    def submodel(name: str, program: str, ports: str) -> str:
        where = f'language="python" path="{program}.py"' if case.language == "python" else f'path="{program}"'
        class_ = ' class="many:Many"' if many and name == "Reader" else ""
        return (
            f'<submodel id="{name}"{class_}><timescale delta="1 s" total="1 s"/>{params}<ports>{ports}</ports>'
            f"<implementation {where}/></submodel>"
        )

    field = 'id="fields" datatype="field"'
    writer = submodel("Writer", "writer", f'<out {field}/><out id="messages" operator="Oi"/>')
    messages = "" if many else '<in id="messages" operator="S"/>'
    reader = submodel("Reader", "many" if many else "reader", f"<in {field}/>{messages}")
    copies = f' multiplicity="{many}"' if many > 1 else ""
    coupling = "" if many else '<coupling from="w.messages" to="r.messages" run:capacity="1000"/>'
    return (
        '<model id="pool" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        '<definitions><datatype id="field" run:attributes="step:int[0..]! param:uint! levtype:enum(sfc,pl)!"/>'
        f"{writer}{reader}</definitions>"
        '<topology><instance id="w" submodel="Writer" run:order="free"/>'
        f'<instance id="r" submodel="Reader" run:order="free"{copies}/>'
        f'<coupling from="w.fields" to="r.fields" run:kind="pool" run:select="{select}"/>{coupling}</topology></model>'
    )


def table(samples: Sequence[Sample]) -> str:
    """Return medians with their spread, pools beside messages."""
    keys = dict.fromkeys((each.experiment, each.language, each.parameter, each.unit) for each in samples)
    rows = []
    for experiment, language, parameter, unit in keys:
        own = [
            each
            for each in samples
            if (each.experiment, each.language, each.parameter) == (experiment, language, parameter)
        ]
        of = {way: [each.figure for each in own if each.way == way] for way in ("pool", "messages")}
        spread = {way: str(figures.Spread.of(values)) if values else "-" for way, values in of.items()}
        ratio = statistics.median(of["pool"]) / statistics.median(of["messages"]) if of["messages"] else None
        what = f"{parameter} readers" if experiment == "readers" else figures.size(parameter)
        rows.append(
            (
                f"{experiment}, {what}, {language}",
                spread["pool"],
                spread["messages"],
                unit,
                "-" if ratio is None else figures.number(ratio),
            )
        )
    return figures.table(("objects", "pool", "messages", "unit", "ratio"), rows)


if __name__ == "__main__":
    sys.exit(main())
