"""Whole runs that reach a limit: the memory of a control group, open files."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_models import RECEIVE, SEND, Going, Models, wait_until
from xmml_executors.memory_group import MemoryGroup

LIMIT_MIB = 384
#: Takes memory page by page until there is none.
TAKE = "taken = []\nwhile True:\n    taken.append(b'x' * (1 << 20))\n"


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group whose processes may have little memory."""
    own = MemoryGroup()
    if not own.folders:
        pytest.skip("this machine has no control groups of memory")
    # Processes of version 2 are in groups without groups in them, or in the root.
    around = Path(own.folders[-1] if own.is_version_2 else own.folders[0])
    folder = around / f"xmml-test-{os.getpid()}"
    limits = (
        ("memory.max", "memory.swap.max")
        if own.is_version_2
        else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    )
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            for name, limit in zip(limits, (LIMIT_MIB << 20, 0 if own.is_version_2 else LIMIT_MIB << 20), strict=True):
                if (folder / name).exists() or name == limits[0]:
                    (folder / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"no control group of memory can be made: {error}")
        yield folder
    finally:
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), "something is left in the control group")
        folder.rmdir()


def within(group: Path) -> list[str]:
    """A command that carries out what follows it in a control group."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


#: A program one of whose children takes memory.
TAKE_IN_A_CHILD = f"""import os, sys
if os.fork() == 0:
    exec({TAKE!r})
sys.exit(os.wait()[1] != 0)
"""


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (SEND + TAKE, ["it was killed by SIGKILL"]),
        (TAKE_IN_A_CHILD, ["it ended with exit status 1", "another process, perhaps a child"]),
    ],
    ids=["an instance", "a child of an instance"],
)
def test_a_run_whose_control_group_has_no_more_memory_says_so(
    models: Models, group: Path, program: str, words: list[str]
) -> None:
    model = models.write({"a": program, "b": RECEIVE})
    ended = models.start(model, wrapper=within(group)).end()
    ended.check(4, "a failed", *words, group.name, f"{LIMIT_MIB} MiB")
    assert ("another process" in ended.err) == (program == TAKE_IN_A_CHILD)
    assert not (group / "cgroup.procs").read_text()
    assert not (ended.folder / ".secret").exists()


@pytest.mark.parametrize("files", [8, 12, 16, 20, 24, 28, 32])
def test_with_few_open_files_a_run_works_or_says_which_limit_to_raise(models: Models, files: int) -> None:
    model = models.write({"a": SEND, "b": RECEIVE})
    ended = models.start(model, "-q", wrapper=["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]).end()
    assert ended.status in (0, 4, 5)
    assert ended.status == 0 or "ulimit -n" in ended.last_line, ended.err


#: Joins when it is told to.
JOIN_LATER = """import os, time
while not os.path.exists(os.environ["FAULT_TIME"] + ".go"):
    time.sleep(0.02)
"""


def without_descriptors(models: Models) -> tuple[Going, tuple[int, int]]:
    """A run whose coordinator can open nothing any more when its instances come; also the limits that it had before."""
    model = models.write({"a": JOIN_LATER + SEND, "b": JOIN_LATER + RECEIVE})
    going = models.start(model)
    going.wait_for_event("started", 2)
    pid = going.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    first_free = next(number for number in itertools.count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free, before[1]))
    Path(f"{going.fault_time}.go").touch()
    return going, before


def test_a_run_whose_coordinator_has_no_descriptor_left_says_which_limit_to_raise(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMML_ANSWER_LIMIT_S", "5")
    going, _ = without_descriptors(models)
    ended = going.end()
    ended.check(4, "cannot join the run", "the coordinator cannot accept connections", "ulimit -n")
    assert not (ended.folder / ".secret").exists()


def test_a_run_goes_on_when_its_coordinator_has_descriptors_again(models: Models) -> None:
    going, before = without_descriptors(models)
    going.wait_for_event("refused")
    resource.prlimit(going.process.pid, resource.RLIMIT_NOFILE, before)
    ended = going.end()
    assert ended.status == 0, ended.err
    assert "ulimit -n" in ended.err
