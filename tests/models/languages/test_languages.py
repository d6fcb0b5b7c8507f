"""Every language writes to every language: all types, ranks, orders, times and nested values, byte for byte."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import compiled
import fortran
import fortran_peer
import language_cases
import pytest
from every_language import EACH_LANGUAGE, LANGUAGES, java_program
from model_runs import run_document
from wan.soak import LONG

HERE = Path(__file__).parent
SUPPORT = Path(compiled.__file__).parent
#: The methods, and the order of the large array that goes by each.
METHODS = {"shm": "row", "unix": "row", "tcp": "column"}
#: Ten programs and 25 arrays of 64 MiB; machines that test much else at the same time are slow.
LIMIT_S = 600.0

pytestmark = pytest.mark.timeout(900)


@cache
def fortran_program() -> Path:
    source = Path(mkdtemp(dir=compiled.PROGRAMS.name)) / "peer.f90"
    source.write_text(fortran_peer.source())
    return fortran.compiled(source, options=("-O1",))


def program(language: str) -> str:
    """The attributes of an implementation that start the peer."""
    if language == "java":
        return java_program(HERE / "Peer.java")
    return f'path="{PROGRAMS[language]()}"'


PROGRAMS: dict[str, Callable[[], Path]] = {
    "c": lambda: compiled.compiled(HERE / "peer.c", "-O1", "-lm"),
    "cpp": lambda: compiled.compiled(HERE / "peer.cpp", "-O1"),
    "fortran": fortran_program,
}


def model(pairs: list[tuple[str, str]], cases: Path, count: int, host: str = "own") -> str:
    """A model in which a writer in the first language of each pair sends to a reader in the second one."""
    definitions, instances = [], []
    for role, mine, others in (("writer", 0, 1), ("reader", 1, 0)):
        for language in dict.fromkeys(pair[mine] for pair in pairs):
            partners = [pair[others] for pair in pairs if pair[mine] == language]
            port = '<out id="to_{}" operator="Oi"/>' if role == "writer" else '<in id="from_{}" operator="S"/>'
            ports = "".join(port.format(partner) for partner in partners)
            implementation = "" if language == "python" else f"<implementation {program(language)}/>"
            a_class = ' class="peer:Peer"' if language == "python" else ""
            hosted = f' run:host="{host}"' if language == "python" and host == "own" else ""
            name = f"{role}_{language}"
            definitions.append(
                f'<submodel id="{name}"{a_class}><timescale delta="1 s" total="{count} s"/>'
                f'<param id="languages" value="{" ".join(partners)}"/><param id="cases" value="{cases}"/>'
                f"<ports>{ports}</ports>{implementation}</submodel>"
            )
            instances.append(f'<instance id="{name}" submodel="{name}" init="yes"{hosted}/>')
    couplings = [f'<coupling from="writer_{w}.to_{r}" to="reader_{r}.from_{w}"/>' for w, r in pairs]
    return (
        '<model id="languages" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" '
        'xmlns:run="urn:xmml:run:1">\n<definitions>\n'
        + "\n".join(definitions)
        + "\n</definitions>\n<topology>\n"
        + "\n".join(instances + couplings)
        + "\n</topology>\n</model>\n"
    )


def carried_out(
    folder: Path,
    pairs: list[tuple[str, str]],
    lines: list[str],
    methods: str,
    host: str = "own",
    limit_s: float = LIMIT_S,
) -> Path:
    """Run the pairs through the cases by one method; returns the folder of the run."""
    shutil.copy(HERE / "peer.py", folder)
    shutil.copy(SUPPORT / "elements.py", folder)
    cases = folder / "cases.txt"
    cases.write_text("\n".join(lines) + "\n")
    document = folder / "model.xml"
    document.write_text(model(pairs, cases, len(lines), host))
    return run_document(document, "--hosts", "1", env={"XMML_METHODS": methods}, limit_s=limit_s).folder


def check(run: Path, lines: list[str], writer: str, reader: str) -> None:
    """Hold the report of a reader against the cases."""
    report = run / "instances" / f"reader_{reader}" / "work" / f"from_{writer}"
    found = [language_cases.reported(line) for line in report.read_text().splitlines()]
    wanted = [language_cases.expected(line, writer, reader) for line in lines]
    assert len(found) == len(wanted)
    wrong = [f"sent:     {w[:300]}\nreported: {f[:300]}" for w, f in zip(wanted, found, strict=True) if w != f]
    assert not wrong, f"{len(wrong)} of {len(wanted)} cases\n" + "\n".join(wrong[:10])


@pytest.fixture(scope="module", params=METHODS)
def run_of_all(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """One run, in which every language writes to every language, and what was sent."""
    pairs = [(writer, reader) for writer in LANGUAGES for reader in LANGUAGES]
    folder = tmp_path_factory.mktemp(f"languages-{request.param}")
    lines = language_cases.lines(METHODS[request.param])
    return carried_out(folder, pairs, lines, request.param), lines


@pytest.mark.parametrize("reader", EACH_LANGUAGE)
@pytest.mark.parametrize("writer", EACH_LANGUAGE)
def test_what_one_language_writes_another_reads(run_of_all: tuple[Path, list[str]], writer: str, reader: str) -> None:
    run, lines = run_of_all
    check(run, lines, writer, reader)


def test_hosted_instances_hand_over_the_same(tmp_path: Path) -> None:
    lines = language_cases.lines("column")
    run = carried_out(tmp_path, [("python", "python")], lines, "inproc", host="shared")
    check(run, lines, "python", "python")


#: Every pair with a gibibyte; more than 32 bits can count where a language has such arrays (Java: in loans only).
LARGE = [(writer, reader, 1024) for writer in LANGUAGES for reader in LANGUAGES]
LARGE += [("c", "cpp", 4608), ("python", "python", 4608)]
#: The writer's array, what is on its way, what the reader makes of it to compare: so many times the array at most.
COPIES = 4


def available_mebibytes() -> int:
    """The memory that programs may still have."""
    (found,) = re.findall(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found) >> 10


if LONG:  # some minutes, and as much memory

    @pytest.mark.timeout(1500)
    @pytest.mark.parametrize("methods", ["shm", "tcp"])
    @pytest.mark.parametrize(("writer", "reader", "mebibytes"), LARGE)
    def test_gibibytes_arrive(tmp_path: Path, methods: str, writer: str, reader: str, mebibytes: int) -> None:
        if available_mebibytes() < COPIES * mebibytes:
            pytest.skip(f"needs {COPIES * mebibytes} MiB of memory")
        lines = language_cases.large_line(mebibytes)
        run = carried_out(tmp_path, [(writer, reader)], lines, methods, limit_s=1200)
        check(run, lines, writer, reader)
