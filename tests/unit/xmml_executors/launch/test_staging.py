"""Which files of a model's folder are brought to a site."""

from __future__ import annotations

from pathlib import Path

from xmml_executors.launch.staging import files_of


def test_the_whole_folder_of_a_model_is_without_the_folders_of_runs_that_were_put_there(tmp_path: Path) -> None:
    for name in ("model.xmml", "mesh/plan.json", "out/plan.json", "out/events.jsonl", "out/instances/a/stdout"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = [str(path.relative_to(tmp_path)) for path in files_of(tmp_path, ["."])]
    assert found == ["model.xmml", "mesh/plan.json"]
