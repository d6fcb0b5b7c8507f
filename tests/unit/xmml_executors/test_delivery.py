"""Files of a finished run for whoever asked for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_runs import Run, run_document

MODEL = """<model id="writer" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
  <definitions>
    <submodel id="Writer">
      <timescale delta="1 s" total="1 s"/>
      <ports/>
      <implementation><code language="python" part="header">
import pathlib
pathlib.Path("figures").mkdir()
pathlib.Path("figures/one.txt").write_text("1")
pathlib.Path("answer.txt").write_text("42")
</code></implementation>
    </submodel>
  </definitions>
  <topology><instance id="writer" submodel="Writer"/></topology>
</model>
"""


def run(folder: Path, *results: str, status: int = 0) -> Run:
    (folder / "model.xmml").write_text(MODEL)
    return run_document(folder / "model.xmml", *(f"--result={result}" for result in results), status=status)


def test_files_and_folders_are_copied_where_they_are_wanted(tmp_path: Path) -> None:
    run(tmp_path, "writer/answer.txt=out/of/here.txt", "writer/figures=figures")
    assert (tmp_path / "out/of/here.txt").read_text() == "42"
    assert (tmp_path / "figures/one.txt").read_text() == "1"
    assert sorted(path.name for path in (tmp_path / "out/of").iterdir()) == ["here.txt"]


def test_what_was_there_before_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/old.txt").touch()
    (tmp_path / "answer.txt").write_text("41")
    run(tmp_path, "writer/answer.txt=answer.txt", "writer/figures=figures")
    assert (tmp_path / "answer.txt").read_text() == "42"
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["one.txt"]


def test_a_file_that_was_not_written_fails_the_run_and_nothing_is_copied(tmp_path: Path) -> None:
    done = run(tmp_path, "writer/answer.txt=answer.txt", "writer/question.txt=question.txt", status=4)
    assert done.report["exit_status"] == 4
    assert 'instance "writer" has ended but not written question.txt' in done.stderr
    assert "; its working folder holds answer.txt, figures/" in done.stderr
    assert not (tmp_path / "answer.txt").exists()


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    done = run(tmp_path, "writer/answer.txt=taken/answer.txt", status=5)
    assert done.report["exit_status"] == 5
    assert "answer.txt of writer cannot be copied to taken/answer.txt" in done.stderr


def test_an_unknown_instance_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = run(tmp_path, "writr/answer.txt=answer.txt", status=2)
    assert '--result writr/answer.txt: there is no instance "writr"; did you mean "writer"?' in done.stderr
    assert not done.folder.exists()


@pytest.mark.parametrize(
    "text", ["writer/a", "writer=a", "/a=b", "writer/=b", "writer/a=", "writer//etc/x=b", "w/../x=b"]
)
def test_what_cannot_be_read_is_refused_with_an_example(tmp_path: Path, text: str) -> None:
    assert "argument --result" in run(tmp_path, text, status=2).stderr
