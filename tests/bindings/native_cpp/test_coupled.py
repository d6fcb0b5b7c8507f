"""C and C++ programs in a coupled run, with a coordinator but without xmml-run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compiled import SANITIZED, compiled
from coupled import Program, Run, all_held
from waiting import LIMIT_S

HERE = Path(__file__).parent
CALL_AND_RELEASE = ("macro.question -> micro.question", "micro.answer -> macro.answer")


@pytest.fixture(params=[(), SANITIZED], ids=["plain", "sanitized"])
def options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


def in_c(behaviour: str, *options: str) -> list[str | Path]:
    return [compiled(HERE.parent / "native_c/partner.c", *options), behaviour]


def in_cpp(behaviour: str, *options: str) -> list[str | Path]:
    return [compiled(HERE / "partner.cpp", *options), behaviour]


def test_everything_a_message_can_carry_passes_from_c_to_cpp(tmp_path: Path, options: tuple[str, ...]) -> None:
    sender = Program({"out": "Oi"}, in_c("sends_everything", *options), steps=32)
    receiver = Program({"in": "S"}, in_cpp("receives_everything", *options), steps=32)
    all_held(Run(tmp_path, {"a": sender, "b": receiver}, "a.out -> b.in").carry_out())


def test_an_echo_gives_back_what_was_sent(tmp_path: Path, options: tuple[str, ...]) -> None:
    cpp = Program({"out": "Oi", "in": "S"}, in_cpp("compares_with_its_echo", *options), steps=20)
    c = Program({"in": "finit", "out": "Of"}, in_c("echoes", *options))
    run = Run(tmp_path, {"cpp": cpp, "c": c}, "cpp.out -> c.in", "c.out -> cpp.in")
    all_held(run.carry_out())


@pytest.mark.parametrize(
    ("in_the_sender", "in_the_receiver"),
    [("changes_its_method", "only_receives"), ("sends_the_time", "changes_its_method")],
)
def test_either_end_changes_the_method_in_the_middle(tmp_path: Path, in_the_sender: str, in_the_receiver: str) -> None:
    sender = Program({"out": "Oi"}, in_c(in_the_sender), steps=20)
    receiver = Program({"in": "S"}, in_cpp(in_the_receiver), steps=20)
    all_held(Run(tmp_path, {"a": sender, "b": receiver}, "a.out -> b.in").carry_out())


def test_call_and_release_runs_the_micro_model_once_per_call(tmp_path: Path) -> None:
    macro = Program({"question": "Oi", "answer": "S"}, in_cpp("asks"), steps=5)
    micro = Program({"question": "finit", "answer": "Of"}, in_c("doubles"), steps=3, delta_s=0.1)
    run = Run(tmp_path, {"macro": macro, "micro": micro}, *CALL_AND_RELEASE)
    ended = run.carry_out()
    all_held(ended)
    assert "5 runs" in ended["micro"].output


def test_the_run_knows_the_language_of_each_program(tmp_path: Path) -> None:
    macro = Program({"question": "Oi", "answer": "S"}, in_cpp("asks"))
    micro = Program({"question": "finit", "answer": "Of"}, in_c("doubles"))
    run = Run(tmp_path, {"macro": macro, "micro": micro}, *CALL_AND_RELEASE)
    all_held(run.carry_out())
    assert run.told("joined", "macro")[0]["language"] == "c++"
    assert run.told("joined", "micro")[0]["language"] == "c"


def test_copies_are_addressed_one_by_one(tmp_path: Path) -> None:
    one = Program({"to": "Oi", "from": "S"}, in_c("asks_every_copy"))
    copies = [Program({"in": "finit", "out": "Of"}, in_c("multiplies_by_ten")) for _ in range(3)]
    ended = Run(tmp_path, {"m": one, "c": copies}, "m.to -> c.in", "c.out -> m.from").carry_out()
    all_held(ended)
    assert "3 copies" in ended["m"].output


def test_a_receive_with_a_time_out_takes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    late = Program({"out": "Oi", "looked": "S"}, in_c("sends_later"), checks_order=False)
    hasty = Program({"in": "S", "looked": "Oi"}, in_c("waits_only_a_moment"), checks_order=False)
    run = Run(tmp_path, {"late": late, "hasty": hasty}, "late.out -> hasty.in", "hasty.looked -> late.looked")
    all_held(run.carry_out())


def test_a_sender_learns_that_its_receiver_has_left(tmp_path: Path) -> None:
    sender = Program({"out": "Oi"}, in_c("sends_until_the_receiver_is_gone"), steps=100)
    receiver = Program({"in": "S"}, in_c("leaves_at_once"))
    all_held(Run(tmp_path, {"a": sender, "b": receiver}, "a.out -> b.in").carry_out())


def test_a_failure_in_c_reaches_the_run_with_its_line(tmp_path: Path) -> None:
    sender = Program({"power": "Oi"}, in_c("sends_on_an_unknown_port"))
    receiver = Program({"in": "S"}, in_cpp("only_receives"))
    run = Run(tmp_path, {"heater": sender, "room": receiver}, "heater.power -> room.in")
    ended = run.carry_out()
    assert ended["heater"].status == 1
    assert ended["room"].status != 0
    (failure,) = run.told("failed", "heater")
    assert "powr" in failure["text"]
    assert "partner.c:" in failure["text"]


def test_a_cpp_program_whose_partner_failed_ends_with_one_line_and_no_core_file(tmp_path: Path) -> None:
    sender = Program({"power": "Oi"}, in_c("sends_on_an_unknown_port"))
    receiver = Program({"in": "S"}, in_cpp("only_receives"))
    ended = Run(tmp_path, {"heater": sender, "room": receiver}, "heater.power -> room.in").carry_out()
    assert ended["room"].status == 1
    (line,) = ended["room"].errors.splitlines()
    assert line.startswith("room: ")  # also if heater failed before room had joined
    assert "heater failed" in line


def test_a_cpp_program_that_xmml_run_did_not_start_says_so_in_one_line() -> None:
    program, behaviour = in_cpp("only_receives")
    ended = subprocess.run([program, behaviour], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "not part of a run" in line
    assert "xmml::Alone" in line


def test_an_exception_that_nobody_catches_reaches_the_run_with_its_text(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": Program({}, in_cpp("throws_and_nobody_catches"))})
    ended = run.carry_out()
    assert ended["a"].status != 0
    assert run.told("failed", "a")[0]["text"] == "negative depth in cell 7"


def test_an_exception_that_main_catches_reaches_the_run_too(tmp_path: Path) -> None:
    run = Run(tmp_path, {"a": Program({"power": "Oi"}, in_cpp("throws_and_main_catches"))})
    run.carry_out()
    assert "powr" in run.told("failed", "a")[0]["text"]
    assert run.told("left", "a") == []
