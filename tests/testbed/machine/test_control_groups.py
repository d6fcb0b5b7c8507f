"""Whole runs whose control group has no more memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_models import RECEIVE, SEND, Models
from needs import needs_root
from waiting import wait_until

pytestmark = needs_root

LIMIT_MIB = 384
#: Takes memory page by page until there is none.
TAKE = "taken = []\nwhile True:\n    taken.append(b'x' * (1 << 20))\n"


def group_around() -> tuple[Path, bool]:
    """Return a control group of memory in which others can be made, and whether it is of version 2."""
    mounted = Path("/sys/fs/cgroup")
    version_1 = mounted / "memory"
    if version_1.is_dir():
        lines = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
        name = next((name for _, controllers, name in lines if "memory" in controllers.split(",")), "/")
        own = version_1 / name.removeprefix("/")
        return own if own.is_dir() else version_1, False
    if not (mounted / "cgroup.controllers").exists():
        pytest.skip("needs control groups of memory: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    return mounted, True  # processes of version 2 are in groups without groups in them, or in the root


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group whose processes may have little memory."""
    around, is_version_2 = group_around()
    folder = around / f"xmml-test-{os.getpid()}"
    limits = (
        ("memory.max", "memory.swap.max") if is_version_2 else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    )
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"needs a control group below {around} (in a container: docker run --privileged): {error}")
    try:
        try:
            for name, limit in zip(limits, (LIMIT_MIB << 20, 0 if is_version_2 else LIMIT_MIB << 20), strict=True):
                if (folder / name).exists() or name == limits[0]:
                    (folder / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"needs a limit of memory in {folder} (in a container: docker run --privileged): {error}")
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
