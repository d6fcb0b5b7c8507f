"""Fortran programs in a coupled run, with a coordinator but without xmml-run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from compiled import compiled as compiled_c
from coupled import Program, Run, all_held
from fortran import compiled
from needs import needs
from waiting import LIMIT_S

pytestmark = needs("gfortran")

HERE = Path(__file__).parent
CALL_AND_RELEASE = ("macro.question -> micro.question", "micro.answer -> macro.answer")
METHODS = pytest.mark.parametrize("method", ["shm", "unix", "tcp"])


def in_fortran(behaviour: str) -> list[str | Path]:
    return [compiled(HERE / "behaviour.f90", HERE / "partner.f90"), behaviour]


@pytest.mark.parametrize("partner", ["c++", "python in rows", "python in columns", "fortran"])
@METHODS
def test_no_matrix_is_transposed(partner: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    command: list[str | Path] = {
        "c++": lambda: [compiled_c(HERE / "partner.cpp")],
        "python in rows": lambda: [sys.executable, HERE / "partner.py", "C"],
        "python in columns": lambda: [sys.executable, HERE / "partner.py", "F"],
        "fortran": lambda: in_fortran("doubles_a_matrix"),
    }[partner]()
    matrix = in_fortran("sends_a_matrix_and_checks_the_answer")
    asking = Program({"out": "Oi", "in": "S"}, matrix, steps=4)
    answering = Program({"in": "finit", "out": "Of"}, command)
    all_held(Run(tmp_path, {"a": asking, "b": answering}, "a.out -> b.in", "b.out -> a.in").carry_out())


def test_call_and_release_runs_the_micro_model_once_per_call(tmp_path: Path) -> None:
    macro = Program({"question": "Oi", "answer": "S"}, in_fortran("asks"), steps=5)
    micro = Program({"question": "finit", "answer": "Of"}, in_fortran("doubles"), steps=3, delta_s=0.1)
    run = Run(tmp_path, {"macro": macro, "micro": micro}, *CALL_AND_RELEASE)
    ended = run.carry_out()
    all_held(ended)
    assert "5 runs" in ended["micro"].output
    assert run.told("joined", "macro")[0]["language"] == "fortran"


def test_copies_are_addressed_one_by_one(tmp_path: Path) -> None:
    one = Program({"to": "Oi", "from": "S"}, in_fortran("asks_every_copy"))
    copies = [Program({"in": "finit", "out": "Of"}, in_fortran("multiplies_by_ten")) for _ in range(3)]
    ended = Run(tmp_path, {"m": one, "c": copies}, "m.to -> c.in", "c.out -> m.from").carry_out()
    all_held(ended)
    assert "3 copies" in ended["m"].output


@METHODS
def test_an_array_on_loan_is_seen_where_it_lies(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XMML_METHODS", method)
    lender = Program({"out": "Oi"}, in_fortran("lends_an_array_in_each_step"), steps=20)
    viewer = Program({"in": "S"}, in_fortran("views_an_array_in_each_step"), steps=20)
    all_held(Run(tmp_path, {"a": lender, "b": viewer}, "a.out -> b.in").carry_out())


def test_a_receive_with_a_time_out_takes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    late = Program({"out": "Oi", "looked": "S"}, in_fortran("sends_later"), checks_order=False)
    hasty = Program({"in": "S", "looked": "Oi"}, in_fortran("waits_only_a_moment"), checks_order=False)
    run = Run(tmp_path, {"late": late, "hasty": hasty}, "late.out -> hasty.in", "hasty.looked -> late.looked")
    all_held(run.carry_out())


def test_a_receiver_goes_on_until_the_sender_has_ended(tmp_path: Path) -> None:
    sender = Program({"question": "Oi"}, in_fortran("sends_questions"), steps=3)
    receiver = Program({"in": "S"}, in_fortran("goes_on_until_the_end"), steps=100)
    ended = Run(tmp_path, {"a": sender, "b": receiver}, "a.question -> b.in").carry_out()
    all_held(ended)
    assert ended["b"].output == "3 received\n"


def test_a_sender_learns_that_its_receiver_has_left(tmp_path: Path) -> None:
    sender = Program({"out": "Oi"}, in_fortran("sends_until_the_receiver_is_gone"), steps=100)
    receiver = Program({"in": "S"}, in_fortran("leaves_at_once"))
    all_held(Run(tmp_path, {"a": sender, "b": receiver}, "a.out -> b.in").carry_out())


def test_an_error_that_nobody_asks_about_ends_the_program_and_reaches_the_run(tmp_path: Path) -> None:
    sender = Program({"power": "Oi"}, in_fortran("sends_on_an_unknown_port"))
    receiver = Program({"in": "S"}, in_fortran("only_receives"))
    run = Run(tmp_path, {"heater": sender, "room": receiver}, "heater.power -> room.in")
    ended = run.carry_out()
    (failure,) = run.told("failed", "heater")
    assert "powr" in failure["text"]
    assert ended["heater"].status == 1
    assert ended["heater"].output == ""
    assert ended["heater"].errors.strip() == failure["text"]


def test_a_program_whose_partner_failed_ends_with_one_line(tmp_path: Path) -> None:
    sender = Program({"power": "Oi"}, in_fortran("sends_on_an_unknown_port"))
    receiver = Program({"in": "S"}, in_fortran("only_receives"))
    ended = Run(tmp_path, {"heater": sender, "room": receiver}, "heater.power -> room.in").carry_out()
    assert ended["room"].status == 1
    (line,) = ended["room"].errors.splitlines()
    assert "heater failed" in line


def test_a_message_of_another_type_is_an_error_that_names_port_and_types(tmp_path: Path) -> None:
    sender = Program({"out": "Oi"}, in_fortran("sends_text"))
    receiver = Program({"in": "S"}, in_fortran("expects_another_type"))
    run = Run(tmp_path, {"a": sender, "b": receiver}, "a.out -> b.in")
    run.carry_out()
    told = [failure["text"] for failure in run.told("failed", "b")]
    assert told == ["b.in: expected an array of float64 of rank 2, but found text"], run.events


def test_a_program_that_stops_without_leaving_has_failed(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": Program({}, in_fortran("stops_without_leaving"))})
    ended = run.carry_out()
    assert ended["a"].status == 1
    assert "negative depth in cell 7" in ended["a"].errors
    assert run.told("left", "a") == []


def test_giving_up_reaches_the_run_with_its_text(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": Program({}, in_fortran("gives_up"))})
    run.carry_out()
    assert run.told("failed", "a")[0]["text"] == "negative depth in cell 7"


def test_a_program_that_xmml_run_did_not_start_says_so_in_one_line() -> None:
    ended = subprocess.run(in_fortran("only_receives"), capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "not part of a run" in line
