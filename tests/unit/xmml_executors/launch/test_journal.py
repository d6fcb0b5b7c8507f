"""The journal says what may exist at a site, whenever its launcher was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_executors.launch.journal import JOURNAL, Journal, read_journal
from xmml_executors.outcome import SiteError


def test_what_was_begun_may_exist_and_what_was_cleaned_does_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("launch", run="r-1", pid=7, started="99")
    for site in ("alpha", "beta"):
        journal.write("prepare", site=site, folder=f"/{site}/runs/r-1")
    journal.write("submit", site="alpha", job="m.1")
    journal.write("submitted", site="alpha", job="m.1", id="17")
    journal.write("submit", site="alpha", job="m.2")
    journal.write("reserve", site="beta", name="res-1", job="k")
    journal.close()
    told = read_journal(tmp_path)
    assert told is not None
    assert (told.run_id, told.launcher, told.has_begun) == ("r-1", (7, "99"), False)
    assert told.unclean == ["alpha", "beta"]
    assert told.sites["alpha"].jobs == {"m.1": "17", "m.2": ""}
    assert told.sites["beta"].reservations == {"res-1": "k"}


def test_a_job_that_is_over_and_a_site_that_is_clean_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("prepare", site="alpha", folder="/x")
    journal.write("submitted", site="alpha", job="m.1", id="17")
    journal.write("over", site="alpha", job="m.1")
    told = read_journal(tmp_path)
    assert told is not None
    assert told.sites["alpha"].jobs == {}
    journal.write("submitted", site="alpha", job="m.2", id="18")
    journal.write("clean", site="alpha")
    journal.close()
    told = read_journal(tmp_path)
    assert told is not None
    assert told.unclean == []
    assert told.sites["alpha"].jobs == {}


def test_the_line_that_was_being_written_when_the_launcher_was_killed_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write("prepare", site="alpha", folder="/x")
    journal.close()
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"time": 1, "what": "submit", "si')
    told = read_journal(tmp_path)
    assert told is not None
    assert told.sites["alpha"].jobs == {}


def test_a_run_without_a_journal_has_none(tmp_path: Path) -> None:
    assert read_journal(tmp_path) is None


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("hello\n")
    with pytest.raises(SiteError, match="is not the journal of a run"):
        read_journal(tmp_path)


def test_only_its_owner_can_read_a_journal(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    assert (tmp_path / JOURNAL).stat().st_mode & 0o077 == 0
