"""The seal of a run's folder: what this user's runs have made is known, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from xmml_executors.open_folder import OpenFolder
from xmml_executors.run_seal import SEAL, NotOurs, is_ours, seal, sealed_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The sealed folder of a run."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    (folder / "plan.json").write_text("a plan")
    seal(OpenFolder(folder), "model-1")
    return folder


def test_a_sealed_folder_is_known_with_its_run_wherever_it_is_moved(run: Path) -> None:
    assert sealed_run(OpenFolder(run)) == "model-1"
    assert sealed_run(OpenFolder(run.rename(run.with_name("moved")))) == "model-1"


def test_a_copy_of_a_sealed_folder_is_not_sealed(run: Path) -> None:
    copied = Path(shutil.copytree(run, run.with_name("copy"), copy_function=shutil.copy2))
    with pytest.raises(NotOurs, match="copy is a copy, or was not made by a run of yours: its seal does not fit"):
        sealed_run(OpenFolder(copied))


def test_a_folder_without_a_seal_is_not_ours(run: Path) -> None:
    (run / SEAL).unlink()
    with pytest.raises(NotOurs, match=r"was not made by a run of yours: .*\.seal: No such file"):
        sealed_run(OpenFolder(run))


def test_a_plan_that_was_changed_breaks_the_seal(run: Path) -> None:
    (run / "plan.json").write_text("another plan")
    assert not is_ours(OpenFolder(run))


def test_a_run_that_was_renamed_in_its_seal_breaks_it(run: Path) -> None:
    found = json.loads((run / SEAL).read_text())
    (run / SEAL).write_text(json.dumps({**found, "run": "model-2"}))
    assert not is_ours(OpenFolder(run))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"run": 1, "hash": 2}', '{"run": "model-1", "hash": "\\u00e9"}', "\0"]
)
def test_nonsense_is_no_seal(run: Path, text: str) -> None:
    (run / SEAL).write_text(text)
    assert not is_ours(OpenFolder(run))


def test_a_seal_behind_a_link_is_none(run: Path) -> None:
    elsewhere = (run / SEAL).rename(run.parent / "seal")
    (run / SEAL).symlink_to(elsewhere)
    assert not is_ours(OpenFolder(run))


def test_a_folder_in_which_others_can_write_is_not_trusted(run: Path) -> None:
    run.chmod(0o770)
    with pytest.raises(NotOurs, match="can be written by others; chmod go-w"):
        sealed_run(OpenFolder(run))


def test_another_key_knows_nothing_of_the_run(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert not is_ours(OpenFolder(run))
    assert (tmp_path / "other/xmml/run.key").stat().st_mode & 0o777 == 0o600


def test_without_a_home_directory_the_key_is_missed_in_words(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(NotOurs, match="~: there is no home directory; set XDG_STATE_HOME"):
        sealed_run(OpenFolder(run))


def test_a_key_that_others_can_read_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    seal(OpenFolder(run), "model-1")
    (tmp_path / "state/xmml/run.key").chmod(0o644)
    with pytest.raises(NotOurs, match=r"run\.key: it must belong to you, and be readable by nobody else \(chmod 600\)"):
        sealed_run(OpenFolder(run))
