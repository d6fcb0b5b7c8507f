"""Whole runs that reach the limit of open files."""

from __future__ import annotations

import itertools
import os
import resource

import pytest
from faulty_models import RECEIVE, SEND, Going, Models
from gates import awaits


@pytest.mark.parametrize("files", [8, 12, 16, 20, 24, 28, 32])
def test_with_few_open_files_a_run_works_or_says_which_limit_to_raise(models: Models, files: int) -> None:
    model = models.write({"a": SEND, "b": RECEIVE})
    ended = models.start(model, "-q", wrapper=["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]).end()
    assert ended.status in (0, 4, 5)
    assert ended.status == 0 or "ulimit -n" in ended.last_line, ended.err


def without_descriptors(models: Models) -> tuple[Going, tuple[int, int]]:
    """A run whose coordinator can open nothing any more when its instances come; also the limits that it had before."""
    may_join = models.folder / "may-join"
    wait = f"{awaits(may_join)}\n"
    model = models.write({"a": wait + SEND, "b": wait + RECEIVE})
    going = models.start(model)
    going.wait_for_event("started", 2)
    pid = going.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    first_free = next(number for number in itertools.count() if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free, before[1]))
    may_join.touch()
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
