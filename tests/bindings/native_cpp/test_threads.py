"""Instances that several threads use at once, in C and C++: as they are, and under the sanitizers.

The thread sanitizer has to see both sides of what passes between threads. With XMML_THREAD_SANITIZER naming a library
that is built for it, and its runtime (as `make thread-sanitizer` does), it sees everything. Without, it sees the
programs and the headers of C++ alone: enough where threads share nothing that libxmml hands from one to the other.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from compiled import SANITIZED, compiled, under_thread_sanitizer
from coupled import Program, Run
from waiting import RUN_LIMIT_S

HERE = Path(__file__).parent
C, CPP = HERE.parent / "native_c/threads.c", HERE / "threads.cpp"
#: What the programs are linked with under the thread sanitizer: libxmml and its runtime. Empty: the compiler's own.
WATCHED = os.environ.get("XMML_THREAD_SANITIZER", "").split()
#: What is done inside of libraries is not for the sanitizer to judge that has not seen how they are made.
PARTIAL = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}

ARRAYS_AND_NUMBERS = ("a.arrays -> b.arrays", "a.numbers -> b.numbers")
ONE_AND_TWO = ("a.one -> b.one", "a.two -> b.two")
#: The sending behaviour, the receiving one, and whether a sanitizer that sees only the programs can judge them.
PAIRS = {
    C: [
        ("sends_from_four_threads", "receives_in_two_threads", False),
        ("sends_from_four_threads", "serves_in_two_threads", False),
    ],
    CPP: [
        ("sends_from_two_threads", "receives_in_two_threads", True),
        ("sends_from_two_threads", "callbacks_are_replaced_while_they_are_called", False),
    ],
}
EVERY_PAIR = [(source, *pair) for source, pairs in PAIRS.items() for pair in pairs]


@pytest.fixture(scope="module")
def sanitizer_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where the compiler has no thread sanitizer, or the kernel lays memory out in a way unknown to it."""
    source = tmp_path_factory.mktemp("sanitizer") / "nothing.c"
    source.write_text("int main(void) { return 0; }\n")
    program = source.with_suffix("")
    command = ["cc", "-fsanitize=thread", "-o", str(program), str(source)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("the C compiler has no thread sanitizer")
    if subprocess.run([program], capture_output=True, check=False).returncode != 0:
        pytest.skip("the thread sanitizer cannot run on this kernel")


def carry_out(
    folder: Path,
    program: Path,
    sends: str,
    receives: str,
    couplings: tuple[str, ...],
    env: dict[str, str] | None = None,
) -> None:
    """Run a program as sender and as receiver; both must say that everything held, and nothing else."""
    ports = [coupling.split(" -> ")[0].removeprefix("a.") for coupling in couplings]
    sender = Program(dict.fromkeys(ports, "Oi"), [program, sends], checks_order=False)
    receiver = Program(dict.fromkeys(ports, "S"), [program, receives], checks_order=False)
    ended = Run(folder, {"a": sender, "b": receiver}, *couplings).carry_out(RUN_LIMIT_S, env)
    found = {name: (end.status, end.output, end.errors) for name, end in ended.items()}
    assert found == dict.fromkeys(ended, (0, "held\n", "")), "\n".join(end.errors for end in ended.values())


def couplings_of(source: Path) -> tuple[str, ...]:
    return ARRAYS_AND_NUMBERS if source == C else ONE_AND_TWO


@pytest.mark.skipif(bool(WATCHED), reason="only the thread sanitizer is asked for")
@pytest.mark.parametrize("options", [(), SANITIZED], ids=["plain", "address"])
@pytest.mark.parametrize(("source", "sends", "receives", "_"), EVERY_PAIR)
def test_threads_may_use_an_instance_at_once(
    tmp_path: Path, source: Path, sends: str, receives: str, _: bool, options: tuple[str, ...]
) -> None:
    program = compiled(source, "-pthread", *options)
    carry_out(tmp_path, program, sends, receives, couplings_of(source))


@pytest.mark.parametrize(("source", "sends", "receives", "is_seen_in_part"), EVERY_PAIR)
def test_threads_that_use_an_instance_have_no_races(
    tmp_path: Path, sanitizer_works: None, source: Path, sends: str, receives: str, is_seen_in_part: bool
) -> None:
    if not WATCHED and not is_seen_in_part:
        pytest.skip("the thread sanitizer would have to see libxmml: make thread-sanitizer")
    if WATCHED:
        carry_out(tmp_path, under_thread_sanitizer(source, *WATCHED), sends, receives, couplings_of(source))
    else:
        program = compiled(source, "-pthread", "-fsanitize=thread")
        carry_out(tmp_path, program, sends, receives, couplings_of(source), PARTIAL)


@pytest.mark.parametrize("options", [(), SANITIZED], ids=["plain", "address"])
def test_two_instances_in_one_process_hand_arrays_over(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = under_thread_sanitizer(C, *WATCHED) if WATCHED else compiled(C, "-pthread", *options)
    sender = Program({"arrays": "Oi"}, [program, "is_both_instances"], checks_order=False)
    receiver = Program({"arrays": "S"}, ["true"], checks_order=False)  # the other process joins as this one too
    both = Run(tmp_path, {"a": sender, "b": receiver}, "a.arrays -> b.arrays")
    end = both.carry_out(RUN_LIMIT_S)["a"]
    assert (end.status, end.output, end.errors) == (0, "held\n", ""), end.errors
    assert {event["instance"] for event in both.events if event["event"] == "left"} == {"a", "b"}


def test_a_race_is_found(tmp_path: Path, sanitizer_works: None) -> None:
    """What the tests above would say if there were one.

    Each thread stays until the other has done its part: of a thread that has ended the sanitizer may have forgotten
    what it did.
    """
    source = tmp_path / "race.c"
    source.write_text(
        "#define _POSIX_C_SOURCE 200112L\n"
        "#include <pthread.h>\n#include <xmml.h>\nstatic volatile int shared;\nstatic pthread_barrier_t done;\n"
        "static void *adds(void *context) {\n    for (int i = 0; i < 10000; ++i) ++shared;\n"
        "    pthread_barrier_wait(&done);\n    return context;\n}\n"
        "int main(void) {\n    pthread_t other;\n    pthread_barrier_init(&done, NULL, 2);\n"
        "    pthread_create(&other, NULL, adds, NULL);\n    adds(NULL);\n"
        "    pthread_join(other, NULL);\n    return xmml_version() == NULL;\n}\n"
    )
    program = under_thread_sanitizer(source, *WATCHED) if WATCHED else compiled(source, "-pthread", "-fsanitize=thread")
    ended = subprocess.run([program], capture_output=True, text=True, check=False, env={**os.environ, **PARTIAL})
    assert "data race" in ended.stderr
    assert ended.returncode != 0
