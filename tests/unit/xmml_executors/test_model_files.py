"""What builds have made in the folder of a model is known from run to run."""

from __future__ import annotations

import os
from pathlib import Path

from xmml_executors.model_files import built_before, names_below, note_built


def build(folder: Path, **files: str) -> None:
    """Write files as a build would, and note them."""
    before = names_below(folder)
    for name, text in files.items():
        (folder / name).write_text(text)
    note_built(folder, before)


def test_files_that_a_build_creates_are_built_files(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("int main;")
    build(tmp_path, new="made")
    assert built_before(tmp_path) == {"new"}


def test_a_source_that_is_saved_while_a_build_runs_stays_a_source(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("int main;")
    build(tmp_path, source="int main();", new="made")
    build(tmp_path, new="made again")
    assert built_before(tmp_path) == {"new"}


def test_built_files_are_remembered_by_builds_that_make_other_ones(tmp_path: Path) -> None:
    build(tmp_path, one="1")
    build(tmp_path, two="2")
    build(tmp_path)
    assert built_before(tmp_path) == {"one", "two"}


def test_a_built_file_that_was_removed_is_forgotten_with_the_next_build(tmp_path: Path) -> None:
    build(tmp_path, one="1")
    (tmp_path / "one").unlink()
    build(tmp_path, two="2")
    assert built_before(tmp_path) == {"two"}


def test_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    build(tmp_path, one="1")
    (tmp_path / ".xmml/built.json").write_text("[1, ")
    assert built_before(tmp_path) == frozenset()


def test_notes_and_results_are_no_files_of_the_model(tmp_path: Path) -> None:
    build(tmp_path, one="1")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/result").write_text("")
    assert names_below(tmp_path) == {"one"}


def test_a_record_that_is_a_pipe_is_no_record(tmp_path: Path) -> None:
    (tmp_path / ".xmml").mkdir()
    os.mkfifo(tmp_path / ".xmml/built.json")
    assert built_before(tmp_path) == frozenset()
