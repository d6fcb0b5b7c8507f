"""What a program finds that the supervisor has started, and why one does not start."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervised import Supervised
from xmml_executors.executor import ProcessStart

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
    "cpus": sorted(os.sched_getaffinity(0)),
}))
print("and this", file=sys.stderr)
"""
#: Fewer descriptors than this process may have, and no fewer than it has: other tests of this process may keep some.
SOFT_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor that may have few descriptors, unless it raises that, and that ignores a signal and has blocked none
    when it begins."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, limits[1]))
    try:
        made = Supervised(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        signal.signal(signal.SIGUSR1, before)
    yield made
    made.executor.close(tmp_path, print)


@pytest.mark.parametrize("hosted", [(), ("b",)], ids=["alone", "hosting"])
def test_a_program_finds_what_it_was_given_and_nothing_else(harness: Supervised, hosted: tuple[str, ...]) -> None:
    command = [sys.executable, "-I", "-S", "-c", TELL, "a b", "\u03bb", ""]
    env = {"MODE": "very fast", "LC_ALL": "C.UTF-8"}
    harness.executor.start(ProcessStart("a", command, env, harness.folder, *harness.logs("a"), hosted=hosted))
    assert harness.report("ended", "a").status == 0
    assert (harness.folder / "a.err").read_text() == "and this\n"
    found = json.loads((harness.folder / "a.out").read_text())
    kept = found["env"].pop("XMML_REPORTS", None)
    of_pytest = ("PYTEST_CURRENT_TEST", "LINES", "COLUMNS")  # changed meanwhile, or behind the back of `os.environ`
    by_python = (signal.SIGPIPE, signal.SIGXFSZ)  # by the one that was started
    # glibc ignores its own two signals for whom it starts, if this process has used them.
    found["ignored"] = f"{int(found['ignored'], 16) & ~(1 << 31 | 1 << 32):016x}"
    found["env"] = {name: value for name, value in found["env"].items() if name not in of_pytest}
    assert found == {
        "arguments": ["a b", "\u03bb", ""],
        "env": {name: value for name, value in {**os.environ, **env}.items() if name not in of_pytest},
        "cwd": str(harness.folder),
        "parent": harness.executor.supervisor_pid,
        "leads": True,
        "ignored": f"{sum(1 << number - 1 for number in (signal.SIGUSR1, *by_python)):016x}",
        "blocked": "0" * 16,
        "descriptors": ["0", "1", "2", *([kept] if kept else [])],
        "input": "/dev/null",
        "files": [SOFT_LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[1]],
        "cpus": sorted(os.sched_getaffinity(0)),
    }
    assert (kept is not None) == bool(hosted)


def test_a_program_runs_on_the_cpus_that_it_was_given(harness: Supervised) -> None:
    one = max(os.sched_getaffinity(0))
    command = [sys.executable, "-I", "-S", "-c", TELL]
    harness.executor.start(ProcessStart("a", command, {}, harness.folder, *harness.logs("a"), cpus=[one]))
    assert harness.report("ended", "a").status == 0
    assert json.loads((harness.folder / "a.out").read_text())["cpus"] == [one]


@pytest.mark.parametrize(
    ("program", "folder", "errno"),
    [
        ("nothere", "", "ENOENT"),
        ("closed", "", "EACCES"),
        ("nonsense", "", "ENOEXEC"),
        ("of nobody", "", "ENOENT"),
        ("true", "nofolder", "ENOENT"),
        ("true", "closed", "ENOTDIR"),
        ("a\0b", "", "EINVAL"),
    ],
)
def test_why_a_program_does_not_start(harness: Supervised, program: str, folder: str, errno: str) -> None:
    for name, text, mode in (("closed", "", 0o644), ("nonsense", "\n", 0o755), ("of nobody", "#!/nothere\n", 0o755)):
        (harness.folder / name).write_text(text)
        (harness.folder / name).chmod(mode)
    command = "/bin/true" if program == "true" else str(harness.folder / program)
    harness.executor.start(ProcessStart("a", [command], {}, harness.folder / folder, *harness.logs("a")))
    report = harness.answer("a")
    assert (report.word, report.errno) == ("refused", errno)


@pytest.mark.parametrize("fork", [False, True], ids=["directly", "by the fork server"])
def test_a_program_starts_in_the_folder_of_its_run_also_when_another_has_its_path(tmp_path: Path, fork: bool) -> None:
    run, moved = tmp_path / "run", tmp_path / "moved"
    (run / "work").mkdir(parents=True)
    started = Supervised(run)
    try:
        run.rename(moved)
        (run / "work").mkdir(parents=True)
        command = [sys.executable, "-c", "import os; print(os.getcwd())"]
        env = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        logs = Path("work/out"), Path("work/err")
        started.executor.start(ProcessStart("a", command, env, Path("work"), *logs, fork=fork))
        assert started.report("ended", "a").status == 0, (moved / "work/err").read_text()
    finally:
        started.executor.close(run, print)
    assert (moved / "work/out").read_text() == f"{moved}/work\n"
    assert os.listdir(run / "work") == []


@pytest.mark.parametrize("link", ["log", "logs"])
def test_the_output_of_a_program_is_written_through_no_link_of_the_run(harness: Supervised, link: str) -> None:
    (harness.folder / "precious").mkdir()
    (harness.folder / "precious/log").write_text("precious")
    (harness.folder / "logs").mkdir()
    if link == "log":
        (harness.folder / "logs/log").symlink_to("../precious/log")
    else:
        (harness.folder / "logs").rmdir()
        (harness.folder / "logs").symlink_to("precious")
    log = Path("logs/log")
    harness.executor.start(ProcessStart("a", ["/bin/echo", "x"], {}, harness.folder, log, log))
    assert harness.report("unwritable", "a").file == "logs/log"
    assert (harness.folder / "precious/log").read_text() == "precious"


def test_names_that_are_no_text_reach_a_program_as_they_are(harness: Supervised) -> None:
    odd = os.fsdecode(b"\xe9\xff")
    folder = harness.folder / odd
    folder.mkdir()
    command = ["/bin/sh", "-c", 'pwd > "$0"; echo "$odd" >> "$0"', str(folder / "said")]
    harness.executor.start(ProcessStart("a", command, {"odd": odd}, folder, *harness.logs("a")))
    assert harness.report("ended", "a").status == 0
    assert (folder / "said").read_bytes().splitlines() == [bytes(folder), b"\xe9\xff"]
