"""Programs are started alike with and without a copy of the process that starts them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from xmml_executors.starting import Starter
from xmml_native import _native

#: What a program finds that was started; it must not depend on xMML, and starts soon.
TELL = """import json, os, resource, signal, sys
with open("/proc/self/status") as file:
    masks = {line[:6]: line.split()[1] for line in file if line.startswith(("SigBlk", "SigIgn", "SigCgt"))}
open_ones = {}
for name in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        open_ones[name] = os.readlink("/proc/self/fd/" + name)
    except OSError:
        pass  # the one that lists them
print(json.dumps({
    "arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "parent": os.getppid(),
    "leads": os.getpgrp() == os.getpid(), "ignored": masks["SigIgn"], "blocked": masks["SigBlk"],
    "descriptors": list(open_ones), "input": open_ones["0"], "files": resource.getrlimit(resource.RLIMIT_NOFILE),
}))
print("and this", file=sys.stderr)
"""
COMPILED = os.path.dirname(_native.__file__)

starts = pytest.mark.parametrize("compiled", ["", COMPILED], ids=["copied", "without a copy"])


def start(starter: Starter, folder: Path, *command: str, **more: Any) -> dict[str, Any]:
    """Start a program, wait for its end, and return what became of it; `error` is why it did not start."""
    pipes = {kind: os.pipe2(os.O_CLOEXEC) for kind in ("stdout", "stderr", *more.pop("pipes", ()))}
    order = {"command": list(command), "env": {}, "folder": str(folder), "terminal": None, **more}
    said: dict[str, Any] = {"error": 0}
    try:
        pid, failure = starter.start(order, pipes)
    except OSError as error:
        pid, failure, said["error"] = 0, None, error.errno
    for _, write_end in pipes.values():
        os.close(write_end)
    for kind, (read_end, _) in pipes.items():
        with open(read_end, encoding="utf-8", errors="surrogateescape") as file:
            said[kind] = file.read()
    if failure is not None:
        with open(failure, encoding="ascii") as file:
            said["error"] = int(file.read() or 0)
    said["status"] = os.waitpid(pid, 0)[1] if pid else None
    return said


def children_like_us() -> set[str]:
    """Children with the name of this process, as one has that did not become its program. (Others may come to us:
    a test before may have made this process the one that orphans are given to.)"""
    name = Path("/proc/self/comm").read_text(encoding="ascii")
    found = set()
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/comm").read_text(encoding="ascii") == name:
                    found.add(child)
    return found


def ignored_by_us() -> int:
    """The signals that this process ignores, as the kernel writes them."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))


def inherited() -> list[str]:
    """The descriptors that this process got for everything that it starts, by whoever started it."""
    return [name for name in os.listdir("/proc/self/fd") if is_inherited(int(name))]


def is_inherited(descriptor: int) -> bool:
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False  # it was open for the list only


@starts
@pytest.mark.parametrize("reports", [False, True], ids=["alone", "hosting"])
def test_a_program_finds_what_it_was_given_and_nothing_else(tmp_path: Path, compiled: str, reports: bool) -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN), signal.signal(signal.SIGTERM, lambda *_: None)
    input_before, not_for_it = os.dup(0), os.open(__file__, os.O_RDONLY)
    os.dup2(not_for_it, 0)
    try:
        starter = Starter([signal.SIGUSR1, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ], compiled)
        starter.file_limits = (123, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        command = [sys.executable, "-I", "-S", "-c", TELL, "a b", "\u03bb", ""]
        env = {"MODE": "very fast", "LC_ALL": "C.UTF-8"}
        started = start(starter, tmp_path, *command, env=env, pipes=["reports"] if reports else [])
    finally:
        os.dup2(input_before, 0)
        os.close(input_before)
        os.close(not_for_it)
        for number, handler in zip((signal.SIGUSR1, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    assert (started["error"], started["status"], started["stderr"]) == (0, 0, "and this\n")
    found = json.loads(started["stdout"])
    kept = found["env"].pop("XMML_REPORTS", None)
    restored = sum(1 << number - 1 for number in starter.restored)
    by_python = sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))  # by the one that was started
    assert found == {
        "arguments": ["a b", "\u03bb", ""],
        "env": {**os.environ, **env},
        "cwd": str(tmp_path),
        "parent": os.getpid(),
        "leads": True,
        "ignored": f"{(ignored_by_us() & ~restored) | by_python:016x}",
        "blocked": "0" * 16,
        "descriptors": sorted({"0", "1", "2", *inherited(), *([kept] if kept else [])}, key=int),
        "input": "/dev/null",
        "files": list(starter.file_limits),
    }
    assert (kept is not None) == reports


@starts
@pytest.mark.parametrize(
    ("program", "folder", "number"),
    [
        ("nothere", "", errno.ENOENT),
        ("closed", "", errno.EACCES),
        ("nonsense", "", errno.ENOEXEC),
        ("of nobody", "", errno.ENOENT),
        ("true", "nofolder", errno.ENOENT),
        ("true", "closed", errno.ENOTDIR),
    ],
)
def test_why_a_program_does_not_start(tmp_path: Path, compiled: str, program: str, folder: str, number: int) -> None:
    for name, text, mode in (("closed", "", 0o644), ("nonsense", "\n", 0o755), ("of nobody", "#!/nothere\n", 0o755)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    command = "/bin/true" if program == "true" else str(tmp_path / program)
    before = children_like_us()
    started = start(Starter([], compiled), tmp_path / folder, command)
    assert started["error"] == number
    assert children_like_us() == before


@starts
def test_words_that_are_no_text(tmp_path: Path, compiled: str) -> None:
    assert start(Starter([], compiled), tmp_path, "/bin/echo", "a\0b")["error"] == errno.EINVAL
    assert start(Starter([], compiled), tmp_path, "/bin/echo", "\udcff")["stdout"] == "\udcff\n"


def test_an_installation_without_the_compiled_part_forks(tmp_path: Path) -> None:
    starter = Starter([], str(tmp_path))
    assert start(starter, tmp_path, "/bin/echo", "x")["stdout"] == "x\n"
    assert str(tmp_path) not in sys.path
