"""The journal says what may exist at a site, whenever its launcher was killed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_executors.launch.site.journal import JOURNAL, Journal, JournalLocked, past, read_journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder
from xmml_native.machine import start_of
from xmml_planner import Plan
from xmml_run.commands import cancel
from xmml_run.resume import resumed


def test_what_was_begun_may_exist_and_what_was_cleaned_does_not(tmp_path: Path) -> None:
    journal = Journal(OpenFolder(tmp_path))
    journal.write("launch", run="r-1", pid=7, started="99")
    for site in ("alpha", "beta"):
        journal.write("prepare", site=site, folder=f"/{site}/runs/r-1")
    journal.write("submit", site="alpha", job="m.1")
    journal.write("submitted", site="alpha", job="m.1", id="17")
    journal.write("submit", site="alpha", job="m.2")
    journal.write("reserve", site="beta", name="res-1", job="k")
    journal.close()
    told = read_journal(OpenFolder(tmp_path))
    assert told is not None
    assert (told.run_id, told.launcher) == ("r-1", (7, "99"))
    assert told.unclean == ["alpha", "beta"]
    assert told.sites["alpha"].jobs == {"m.1": "17", "m.2": ""}
    assert told.sites["beta"].reservations == {"res-1": "k"}


def test_a_job_that_is_over_and_a_site_that_is_clean_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(OpenFolder(tmp_path))
    journal.write("prepare", site="alpha", folder="/x")
    journal.write("submitted", site="alpha", job="m.1", id="17")
    journal.write("over", site="alpha", job="m.1")
    told = read_journal(OpenFolder(tmp_path))
    assert told is not None
    assert told.sites["alpha"].jobs == {}
    journal.write("submitted", site="alpha", job="m.2", id="18")
    journal.write("clean", site="alpha")
    journal.close()
    told = read_journal(OpenFolder(tmp_path))
    assert told is not None
    assert told.unclean == []
    assert told.sites["alpha"].jobs == {}


def write_some(folder: Path) -> bytes:
    """Write what a launcher notes of a run; return the journal's bytes."""
    journal = Journal(OpenFolder(folder))
    journal.write("launch", run="r-1", pid=7, started="")
    journal.write("prepare", site="alpha", folder="/x \u2028 \n y")
    journal.write("reserve", site="alpha", name="res-1", job="m")
    journal.write("submit", site="alpha", job="m.1")
    journal.write("submitted", site="alpha", job="m.1", id="17")
    journal.write("go", site="alpha", job="m.1", id="17", host="n1")
    journal.close()
    return (folder / JOURNAL).read_bytes()


def test_a_journal_that_was_cut_at_any_byte_is_read_cancelled_and_resumed(
    make_plan: Callable[..., Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan has no sites: what `xmml cancel` would remove there is told elsewhere; here it must only be read."""
    folder = RunFolder(tmp_path / "run", make_plan("a"), known_as=("r-1", bytes(32)))
    folder.close()
    file = tmp_path / "run" / JOURNAL
    text = write_some(tmp_path / "run")
    for length in range(len(text) + 1):
        whole = text[: text[:length].rfind(b"\n") + 1]
        expected = past(map(json.loads, whole.splitlines()))
        file.write_bytes(text[:length])
        assert read_journal(OpenFolder(tmp_path / "run")) == expected
        assert cancel._cancel(OpenFolder(tmp_path / "run")) == 0
        assert ("ended" in capsys.readouterr().out) is not bool(expected.unclean)
        file.write_bytes(text[:length])
        _, again, journal = resumed(tmp_path / "run")
        journal.close()
        assert journal.past == expected
        assert again.run_id == "r-1" if whole else again.run_id not in ("", "r-1")
        again.close()
        file.write_bytes(text[:length])
        journal = Journal(OpenFolder(tmp_path / "run"))
        assert file.read_bytes() == whole
        journal.write("submit", site="beta", job="k.1")
        journal.close()
        assert [json.loads(line)["what"] for line in file.read_bytes().splitlines()][-1] == "submit"
        found = read_journal(OpenFolder(tmp_path / "run"))
        assert found is not None
        assert found.sites["beta"].jobs == {"k.1": ""}


def test_a_line_that_did_not_fit_on_the_disk_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_some(tmp_path)
    journal = Journal(OpenFolder(tmp_path))
    write = os.write
    room = [9]

    def write_as_if_full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[: room[0]])
        room[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_as_if_full)
        with pytest.raises(SiteError, match=r"journal\.jsonl: No space left on device"):
            journal.write("submit", site="alpha", job="m.2")
    assert (tmp_path / JOURNAL).read_bytes() == before
    journal.write("clean", site="alpha")
    journal.close()
    told = read_journal(OpenFolder(tmp_path))
    assert told is not None
    assert told.unclean == []


def test_a_run_without_a_journal_has_none(tmp_path: Path) -> None:
    assert read_journal(OpenFolder(tmp_path)) is None


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("hello\n")
    with pytest.raises(SiteError, match="is not the journal of a run"):
        read_journal(OpenFolder(tmp_path))


def test_only_its_owner_can_read_a_journal(tmp_path: Path) -> None:
    Journal(OpenFolder(tmp_path)).close()
    assert (tmp_path / JOURNAL).stat().st_mode & 0o077 == 0


def test_one_at_a_time_has_a_journal_and_who_comes_second_is_told_who(tmp_path: Path) -> None:
    journal = Journal(OpenFolder(tmp_path))
    with pytest.raises(JournalLocked, match=f"another process is going on with {tmp_path}"):
        Journal(OpenFolder(tmp_path))
    journal.write("launch", run="r-1", pid=os.getpid(), started=start_of(os.getpid()))
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} is launching {tmp_path}"):
        Journal(OpenFolder(tmp_path))
    journal.write_cancel()
    with pytest.raises(JournalLocked, match=f"process {os.getpid()} is cancelling {tmp_path}"):
        Journal(OpenFolder(tmp_path))
    journal.close()
    Journal(OpenFolder(tmp_path)).close()
