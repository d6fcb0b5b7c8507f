"""Naming what went wrong."""

from __future__ import annotations

import signal

import pytest
from xmml_executors.failure import Failure, FailureSymptom, cause_of, describe, one_line
from xmml_executors.instance_record import InstanceRecord


def record(**values: object) -> InstanceRecord:
    """Return an instance "a" that has joined, with some values set."""
    made = InstanceRecord("a", joined_at=1.0)
    for name, value in values.items():
        setattr(made, name, value)
    return made


ENDED = Failure("a", FailureSymptom.ENDED, "", 2.0)


def test_the_first_failure_is_the_cause() -> None:
    first, second = Failure("a", FailureSymptom.REPORTED, "bad input", 1.0), Failure("b", FailureSymptom.LOST, "", 1.01)
    assert cause_of([second, first]) is first


def test_a_crash_is_the_cause_of_the_failure_that_names_it() -> None:
    partner, crash = (
        Failure("b", FailureSymptom.REPORTED, "a closed the connection", 1.0),
        Failure("a", FailureSymptom.LOST, "", 1.01),
    )
    assert cause_of([partner, crash]) is crash


def test_a_later_crash_is_not_taken_for_the_cause() -> None:
    first, crash = (
        Failure("b", FailureSymptom.REPORTED, "a sent nonsense", 1.0),
        Failure("a", FailureSymptom.LOST, "", 1.5),
    )
    assert cause_of([first, crash]) is first


def test_a_name_inside_another_name_does_not_count() -> None:
    first, crash = (
        Failure("b", FailureSymptom.REPORTED, "a[10] is out of range", 1.0),
        Failure("a[1]", FailureSymptom.LOST, "", 1.0),
    )
    assert cause_of([first, crash]) is first


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"failure": "a has no port x"}, "a failed: a has no port x"),
        ({"signal": signal.SIGSEGV}, "a failed: it was killed by SIGSEGV (Segmentation fault)"),
        ({"exit_status": 3}, "a failed: it ended with exit status 3"),
        ({"exit_status": 0}, "a failed: it ended without leaving the run"),
        ({"exit_status": 0, "joined_at": None}, "a failed: it ended without joining the run"),
        ({"exit_status": 1, "joined_at": None}, "a failed: it ended with exit status 1 before it joined the run"),
        ({"exit_status": 1, "left_at": 2.0}, "a failed: it ended with exit status 1 after it left the run"),
        ({}, "a failed: it lost its connection to the run"),
    ],
)
def test_a_failure_is_described_by_its_cause(values: dict[str, object], words: str) -> None:
    assert describe(ENDED, record(**values)).startswith(words)


def test_the_last_words_of_a_program_are_told() -> None:
    made = record(exit_status=1)
    made.last_words.extend(["Traceback (most recent call last):", "ValueError: negative depth", "-----", ""])
    assert describe(ENDED, made) == "a failed: it ended with exit status 1: ValueError: negative depth"


def test_the_place_in_the_users_own_file_is_told() -> None:
    made = record(exit_status=1)
    made.last_words.extend(
        ['  File "/models/wave.py", line 12, in step', '  File "/usr/lib/json.py", line 3, in loads', "ValueError: no"]
    )
    assert describe(ENDED, made, own_files=("/models",)).endswith("(at /models/wave.py:12)")


def test_control_characters_of_a_program_do_not_reach_the_terminal() -> None:
    assert one_line("a\x1b[2Jb\nc") == "a\N{REPLACEMENT CHARACTER}[2Jb c"
