"""How many messages sources send, from what their files hold."""

from __future__ import annotations

import os
from pathlib import Path

import numpy
import pytest

from xmml.analysis.source_data import SourceData, source_data
from xmml.check import check

MODEL = """<model id="sources" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml">
<definitions>
  <terminal id="Source" type="source" class="{form}">{params}<ports><out id="data"/></ports></terminal>
  <submodel id="Reader"><timescale delta="1 s" total="1 s"/><ports><in id="data" operator="S"/></ports></submodel>
</definitions>
<topology>
  <instance id="source" terminal="Source"/><instance id="reader" submodel="Reader"/>
  <coupling from="source.data" to="reader.data"/>
</topology>
</model>"""


def data_of(folder: Path, form: str, **params: str) -> SourceData:
    text = "".join(f'<param id="{name}" value="{value}"/>' for name, value in params.items())
    path = folder / "model.xmml"
    path.write_text(MODEL.format(form=form, params=text))
    return source_data(check(path, allow_outside=True).model_or_raise())


def test_a_file_is_one_message(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros((5, 3)))
    assert data_of(tmp_path, "npy", file="a.npy").fires == {"source": 1}


def test_files_that_match_a_pattern_are_a_message_each(tmp_path: Path) -> None:
    for number in range(3):
        numpy.save(tmp_path / f"a.{number}.npy", numpy.zeros(2))
    assert data_of(tmp_path, "npy", file="a.*.npy").fires == {"source": 3}


@pytest.mark.parametrize(
    ("form", "text", "rows"),
    [
        ("csv", "1,2\n3,4\n5,6\n", 3),
        ("csv", "# x,y\n1,2\n\n3,4\n", 2),
        ("text", "1 2 3 4\n", 4),
        ("text", "1\n2\n3\n", 3),
        ("text", "1 2\n3 4\n", 2),
    ],
)
def test_rows_are_a_message_each_if_so_asked(tmp_path: Path, form: str, text: str, rows: int) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert data_of(tmp_path, form, file="a.txt", messages="rows").fires == {"source": rows}


def test_the_rows_of_an_array_are_those_of_its_first_axis(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.zeros((5, 3)))
    assert data_of(tmp_path, "npy", file="a.npy", messages="rows").fires == {"source": 5}


def test_header_lines_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    assert data_of(tmp_path, "csv", file="a.csv", messages="rows", skip="1").fires == {"source": 2}


def test_a_source_that_repeats_sends_as_many_as_are_asked_for(tmp_path: Path) -> None:
    assert data_of(tmp_path, "csv", file="a.csv", repeat="yes").fires == {"source": None}


def test_a_file_that_is_not_there_leaves_the_number_open(tmp_path: Path) -> None:
    assert data_of(tmp_path, "csv", file="later.csv").uncertain == {"source"}


@pytest.mark.parametrize("form", ["npy", "csv", "text"])
def test_pipes_and_devices_are_not_read(tmp_path: Path, form: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert data_of(tmp_path, form, file="pipe", messages="rows").uncertain == {"source"}
    assert data_of(tmp_path, form, file="/dev/zero", messages="rows").uncertain == {"source"}


def test_a_pattern_that_finds_links_without_end_leaves_the_number_open(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).symlink_to(".")
    assert data_of(tmp_path, "csv", file="/".join("*" * 39) + "/none.csv").uncertain == {"source"}


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }"),
        header("{'descr': '<f8', b'fortran_order': False, 'shape': (3,), }"),
        header("{'descr': '<,8', 'fortran_order': False, 'shape': (3,), }"),
        header("(" * 3000),
        header("-" * 9000 + "1"),
    ],
)
def test_a_damaged_array_leaves_the_number_open(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    assert data_of(tmp_path, "npy", file="a.npy", messages="rows").uncertain == {"source"}
