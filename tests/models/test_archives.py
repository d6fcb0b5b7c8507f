"""Terminals that keep the objects of pools in an archive, and put them again in a later run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from model_runs import run_document
from pool_models import ATTRIBUTES, model_of, pool

import xmml

WRITER = """
    import numpy as np, xmml
    with xmml.Instance() as me:
        while me.reuse():
            for t in me.steps():
                with me.group("fields", step=int(t)) as record:
                    for param in "tuv":
                        record.put(np.full((100, 60), t + me.index), param=param)
"""
READER = """
    import xmml
    with xmml.Instance() as me:
        while me.reuse():
            for field in me.objects("fields"):
                print(field["step"], field["param"], field.data.shape, field.data[0, 0], field["sys.instance"])
"""
SINK = (
    '<terminal id="Disk" type="sink" class="archive"><param id="file" value="fields.archive"/>'
    '<ports><in id="fields" datatype="field"/></ports></terminal>'
)
SOURCE = (
    '<terminal id="Disk" type="source" class="archive"><param id="file" value="{file}"/>'
    '<param id="select" value="param != \'u\'"/><ports><out id="fields" datatype="field"/></ports></terminal>'
)


def with_terminal(model: Path, terminal: str) -> Path:
    """Add a terminal to the definitions of a model."""
    model.write_text(model.read_text().replace("</definitions>", f"{terminal}</definitions>"))
    return model


def test_an_archive_keeps_what_its_selector_chooses_and_a_later_run_reads_it_by_selectors(tmp_path: Path) -> None:
    model = model_of(
        tmp_path / "model",
        {"Writer": WRITER},
        '<instance id="w" submodel="Writer" multiplicity="2"/><instance id="disk" terminal="Disk"/>',
        pool("w", "disk", "step % 2 = 0"),
    )
    run_document(with_terminal(model, SINK), folder=tmp_path / "run")
    [path] = tmp_path.rglob("fields.archive")
    with xmml.open_archive(str(path)) as archive:
        found = [(each["sys.index"], each["step"], each["param"]) for each in archive]
        assert sorted(found) == [(index, step, param) for index in (0, 1) for step in (0, 2) for param in "tuv"]
        for each in archive.select("sys.index = 1 and param = 't'"):
            np.testing.assert_array_equal(each.data, np.full((100, 60), each["step"] + 1))
        assert list(archive.verify()) == []
        assert archive.attributes == ATTRIBUTES.replace("[0..]!", "")

    later = model_of(
        tmp_path / "later",
        {"Reader": READER},
        '<instance id="disk" terminal="Disk"/><instance id="r" submodel="Reader"/>',
        pool("disk", "r", "step > 0"),
    )
    path.rename(tmp_path / "later" / "kept.archive")
    run = run_document(with_terminal(later, SOURCE.format(file="kept.archive")), folder=tmp_path / "later-run")
    assert sorted(run.lines("r")) == sorted(
        f"2 {param} (100, 60) {float(2 + index)} disk" for index in (0, 1) for param in "tv"
    )


def test_an_archive_that_is_there_already_is_added_to_and_another_type_is_refused(tmp_path: Path) -> None:
    for attempt in range(2):
        model = model_of(
            tmp_path / f"model{attempt}",
            {"Writer": WRITER},
            '<instance id="w" submodel="Writer"/><instance id="disk" terminal="Disk"/>',
            pool("w", "disk"),
        )
        run_document(
            with_terminal(model, SINK.replace("fields.archive", str(tmp_path / "all.archive"))),
            folder=tmp_path / f"run{attempt}",
        )
    with xmml.open_archive(str(tmp_path / "all.archive")) as archive:
        assert len(archive) == 24
    model.write_text(model.read_text().replace("step:int[0..]!", "step:real!"))
    run = run_document(model, folder=tmp_path / "refused", status=4)
    assert "holds objects whose step is int, and here it is real" in run.stderr
