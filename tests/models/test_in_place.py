"""Large arrays are read where their sender has put them: in memory that both processes see, without a copy."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fortran
import pytest
from compiled import compiled
from coupled import Program, Run
from needs import needs, needs_java
from xmml_native import config

HERE = Path(__file__).parent / "in_place"
needs_fortran = needs("gfortran")


def in_java(folder: Path, name: str) -> Sequence[str | Path]:
    subprocess.run(["javac", "-cp", str(config.jar()), "-d", str(folder), str(HERE / f"{name}.java")], check=True)
    # The address of a buffer is nobody's business otherwise.
    return ["java", "--add-opens", "java.base/java.nio=ALL-UNNAMED", "-cp", f"{config.jar()}:{folder}", name]


READERS = {
    "python": lambda _: [sys.executable, HERE / "reader.py"],
    "cpp": lambda _: [compiled(HERE / "reader.cpp", "-O1")],
    "fortran": lambda _: [fortran.compiled(HERE / "reader.f90", options=("-O1",))],
    "java": lambda folder: in_java(folder, "Reader"),
}
TAKERS = {
    "python": lambda _: [sys.executable, HERE / "many_taken.py"],
    "c": lambda _: [compiled(HERE / "many_taken.c", "-O1")],
    "cpp": lambda _: [compiled(HERE / "many_taken.cpp", "-O1")],
    "fortran": lambda _: [fortran.compiled(HERE / "many_taken.f90", options=("-O1",))],
    "java": lambda folder: in_java(folder, "ManyTaken"),
}


def in_languages(programs: Mapping[str, object]) -> list[Any]:
    """Their names, as parameters of a test that says what is missing."""
    marks = {"fortran": [needs_fortran], "java": [needs_java]}
    return [pytest.param(name, marks=marks.get(name, [])) for name in programs]


def lies_in(maps: str, address: int) -> str:
    """What the memory at an address is made of, by the words of the kernel."""
    for start, end, name in re.findall(r"^([0-9a-f]+)-([0-9a-f]+)(?: +\S+){4} *(.*)$", maps, re.MULTILINE):
        if int(start, 16) <= address < int(end, 16):
            return str(name)
    raise AssertionError(f"nothing is mapped at {address:x}:\n{maps}")


@pytest.mark.parametrize("language", in_languages(READERS))
@pytest.mark.parametrize("method", ["shm", "unix"])
def test_a_large_array_is_read_where_it_was_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str, method: str
) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    writer = Program({"out": "Oi"}, [sys.executable, HERE / "writer.py"])
    reader = Program({"in": "finit"}, READERS[language](tmp_path), checks_order=False)
    ended = Run(tmp_path, {"writer": writer, "reader": reader}, "writer.out -> reader.in").carry_out()
    assert [end.status for end in ended.values()] == [0, 0], ended
    output = ended["reader"].output
    assert float(re.findall(r"^sum (\S+)", output)[0]) == 1 << 16
    (address,) = re.findall(r"^address (\d+)$", output, re.MULTILINE)
    is_lent = "memfd:xmml-payloads" in lies_in(output, int(address))
    assert is_lent == (method == "shm"), "what comes through a socket lies in memory of the reader's own"


@pytest.mark.parametrize("language", in_languages(TAKERS))
def test_arrays_that_a_receiver_has_dropped_leave_their_memory_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    steps, size_b = 200, 1 << 20
    monkeypatch.setenv("XMML_METHODS", "shm")
    sender = Program({"out": "Oi"}, [sys.executable, HERE / "many_sent.py"], steps)
    taker = Program({"in": "S"}, TAKERS[language](tmp_path), steps)
    ended = Run(tmp_path, {"sender": sender, "taker": taker}, "sender.out -> taker.in").carry_out()
    assert [end.status for end in ended.values()] == [0, 0], ended
    assert float(ended["taker"].output.split()[1]) == steps * size_b / 16
    taken_b = int(ended["sender"].output.split()[1])
    assert 0 < taken_b < steps * size_b / 4, "as if nothing had ever come back"


@needs_java
def test_java_gives_arrays_back_that_nobody_closes_before_they_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, size_b = 150, 8 << 20
    monkeypatch.setenv("XMML_METHODS", "shm")
    monkeypatch.setenv("SENT_B", str(size_b))
    sender = Program({"out": "Oi"}, [sys.executable, HERE / "many_sent.py"], steps)
    taker = Program({"in": "S"}, in_java(tmp_path, "ManyForgotten"), steps)
    ended = Run(tmp_path, {"sender": sender, "taker": taker}, "sender.out -> taker.in").carry_out()
    assert [end.status for end in ended.values()] == [0, 0], ended
    assert float(ended["taker"].output.split()[1]) == steps / 2
    taken_b = int(ended["sender"].output.split()[1])
    assert 0 < taken_b < steps * size_b / 2, "as if the collector had never run"
