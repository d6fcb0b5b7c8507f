"""`xmml pool`: objects of archives are listed, verified, written as files, and dropped."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import written
from xmml_run.main import xmml

ATTRIBUTES = "step:int param:enum(t,u,v) share:real wet:bool at:time tags:int[] raw:bytes"


def field(step: int, param: str, data: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
    """Return a payload and its attributes."""
    system = {"sys.instance": "w", "sys.index": 1, "sys.port": "fields", "sys.t": step / 2}
    system |= {"sys.type": "float64", "sys.shape": [2]} if data is None else {}
    return np.full(2, step) * 1.0 if data is None else data, {"step": step, "param": param, **system, **more}


class Command:
    """`xmml pool` of an archive, in a folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capture = folder, capture
        self.path = str(folder / "fields.archive")

    def write(self, *objects: tuple[Any, dict[str, Any]]) -> None:
        written(self.folder, objects, ATTRIBUTES, "fields.archive")

    def told(self, action: str, *words: str, status: int = 0) -> str:
        """Return what the command says; on its error output if it fails."""
        self._capture.readouterr()
        assert xmml(["pool", action, self.path, *words]) == status
        told = self.said()
        return told.err if status else told.out

    def said(self) -> Any:
        """Return what was said since this was asked last."""
        return self._capture.readouterr()


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path, capsys)


def test_both_counts_of_a_listing_have_separators(pool: Command) -> None:
    pool.write(*((step, {"step": step}) for step in range(2008)))
    assert pool.told("ls").endswith("\n2,008 of 2,008 objects\n")


def test_objects_are_listed_and_verified(pool: Command) -> None:
    pool.write(*(field(step, "t") for step in range(3)))
    assert pool.told("ls", "--select", "step > 0").splitlines() == [
        "       2  step=1 param=t  (float64 2; w[1].fields, t = 0.5 s)",
        "       3  step=2 param=t  (float64 2; w[1].fields, t = 1 s)",
        "2 of 3 objects",
    ]
    assert json.loads(pool.told("ls", "--json", "--most", "1"))["step"] == 0
    assert pool.told("verify") == "3 objects, all as written\n"


def test_a_text_that_is_no_selector_is_shown_with_the_mistake(pool: Command) -> None:
    pool.write(field(0, "t"))
    for action, option in (("ls", "--select"), ("export", "--select"), ("compact", "--drop"), ("compact", "--select")):
        to = ["--to", "files/"] if action == "export" else []
        assert pool.told(action, option, "stap > 0", *to, status=2).splitlines() == [
            f"xmml pool {action}: this is no selector of its objects: there is no attribute 'stap'; did you mean step?",
            "stap > 0",
            "^^^^",
            "attributes: step:int param:enum(t,u,v) share:real wet:bool at:time tags:int[] raw:bytes",
        ]


def test_what_is_no_archive_is_told(pool: Command) -> None:
    pool.path = str(pool.folder)
    for action in (["ls"], ["verify"], ["compact"], ["export", "--to", "x/"]):
        assert "it has no index.sqlite" in pool.told(*action, status=2)


def test_a_folder_has_a_file_for_each_object_and_a_table_of_their_attributes(pool: Command) -> None:
    pool.write(field(0, "t"), field(1, "t", "text"), field(2, "u", b"\1"), field(3, "u", {"a": [1, 2j]}), field(4, "v"))
    assert pool.told("export", "--to", "files/", "--select", "step < 4") == "4 of 5 objects are in files/\n"
    files = pool.folder / "files"
    assert np.load(files / "00000001.npy").tolist() == [0, 0]
    assert (files / "00000002.txt").read_text() == "text"
    assert (files / "00000003.bin").read_bytes() == b"\1"
    assert json.loads((files / "00000004.json").read_text()) == {"a": [1, [0, 2]]}
    table = (files / "objects.csv").read_text().splitlines()
    assert table[0].startswith("sys.file,step,param,sys.t,")
    assert table[2].startswith("00000002.txt,1,t,0.5,")
    assert len(table) == 5
    assert sorted(path.name for path in pool.folder.iterdir()) == ["fields.archive", "files"]


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_attributes_become_dimensions_of_netcdf_and_zarr(pool: Command, suffix: str) -> None:
    from datetime import UTC, datetime

    import xarray

    more = {"wet": True, "tags": [1, 2], "raw": b"\1"}
    pool.write(
        *(
            field(step, param, share=step / 4, at=datetime(2026, 1, 1 + step, tzinfo=UTC), **more)
            for step in range(3)
            for param in "tu"
            if (step, param) != (1, "u")
        )
    )
    to = f"fields{suffix}"
    assert pool.told("export", "--to", to, "--dims", "step,param") == f"5 of 5 objects are in {to}\n"
    with xarray.open_dataset(to, engine="h5netcdf" if suffix == ".nc" else "zarr") as found:
        data = found["data"]
        assert (data.dims, data.shape) == (("step", "param", "axis0"), (3, 2, 2))
        assert found["step"].values.tolist() == [0, 1, 2]
        assert found["param"].values.tolist() == ["t", "u"]
        assert data.sel(step=2, param="u").values.tolist() == [2, 2]
        assert np.isnan(data.sel(step=1, param="u").values).all()
        assert found["share"].values.tolist() == [0, 0.25, 0.5]
        assert found["at"].values[2] == np.datetime64("2026-01-03")
        assert found["sys.t"].values.tolist() == [0, 0.5, 1]
        assert {
            "wet": 1,
            "tags": "[1, 2]",
            "raw": "01",
            "sys.instance": "w",
            "sys.index": 1,
        }.items() <= data.attrs.items()


def test_hdf5_has_a_dataset_for_each_object_with_its_attributes(pool: Command) -> None:
    import h5py

    more = {"share": 0.5, "wet": True, "tags": [1, 2], "raw": b"\1\0"}
    payloads = [np.ones((2, 3), "complex64"), "text", b"\1\0", {"a": [1, "x"]}, 0.5, b"", True]
    pool.write(*(field(step, "t", data, **more) for step, data in enumerate(payloads)), (None, {"step": 9}))
    assert pool.told("export", "--to", "fields.h5") == "8 of 8 objects are in fields.h5\n"
    with h5py.File("fields.h5") as file:
        assert list(file) == [f"{number:08}" for number in range(1, 9)]
        array, text, some_bytes, nested, number, no_bytes, truth, nothing = file.values()
        np.testing.assert_array_equal(array, payloads[0])
        assert array.dtype == "complex64"
        assert text.asstr()[()] == "text"
        assert some_bytes[()].tobytes() == b"\1\0"
        assert json.loads(nested.asstr()[()]) == payloads[3]
        assert (number[()], truth[()]) == (0.5, True)
        assert no_bytes.shape is None
        assert nothing.shape is None
        assert (array.attrs["step"], array.attrs["param"], array.attrs["share"], array.attrs["wet"]) == (
            0,
            "t",
            0.5,
            True,
        )
        assert (array.attrs["tags"].tolist(), array.attrs["raw"].tolist()) == ([1, 2], [1, 0])
        assert array.attrs["sys.instance"] == "w"


def test_npy_is_the_array_alone(pool: Command) -> None:
    pool.write(field(1, "t"), field(0, "t"), field(1, "u"), field(2, "t", np.ones(3)))
    pool.told("export", "--to", "all.npy", "--select", "step < 2")
    assert np.load("all.npy").tolist() == [[1, 1], [0, 0], [1, 1]]
    pool.told("export", "--to", "t.npy", "--dims", "param, step", "--select", "step < 2", "--fill", "-1")
    assert np.load("t.npy").tolist() == [[[0, 0], [1, 1]], [[-1, -1], [1, 1]]]
    pool.told("export", "--to", "last.npy", "--dims", "step", "--which", "last", "--select", "step < 2")
    assert np.load("last.npy").tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--to", "x.grib"], "x.grib: no format has the suffix .grib; use .nc, .zarr, .npy, .h5, .hdf5, or FOLDER/"),
        (["--to", ""], "the path is empty: name a file with one of .nc, .zarr, .npy, .h5, .hdf5, or a folder"),
        (["--to", "x.npy", "--axes", "x"], "x.npy has no names; the array and its axes have names in .nc, .zarr"),
        (["--to", "x.NPY", "--name", "x"], "x.NPY has no names"),
        (["--to", "fields.archive/"], "there is fields.archive already"),
        (["--to", "none/x.npy"], "none/x.npy cannot be written: No such file or directory"),
        (["--to", "x.npy"], "objects 1 and 2 have different shapes, (2,) and (3,)"),
        (["--to", "x.npy", "--dims", "param"], "objects 1 and 2 both have param = t"),
        (["--to", "x.npy", "--dims", "stap"], "there is no attribute 'stap'"),
        (
            ["--to", "x.h5", "--dims", "step"],
            "holds each object by itself; one array of them is written to .nc, .zarr, .npy",
        ),
        (["--to", "x/", "--fill", "0"], "holds each object by itself"),
        (["--to", "x.nc", "--select", "step = 2"], "NetCDF has no complex64; .h5, .zarr and .npy have"),
    ],
)
def test_what_cannot_be_written_is_told_and_leaves_nothing(pool: Command, words: list[str], problem: str) -> None:
    pool.write(field(0, "t"), field(1, "t", np.ones(3)), field(2, "t", np.ones(2, "complex64")))
    assert problem in pool.told("export", *words, status=2)
    assert [path.name for path in pool.folder.iterdir()] == ["fields.archive"]


@pytest.mark.parametrize(
    ("suffix", "missing", "install"),
    [(".nc", "h5netcdf", "h5netcdf"), (".zarr", "zarr", "zarr"), (".h5", "h5py", "h5py"), (".nc", "xarray", "xarray")],
)
def test_a_package_that_is_missing_is_named(
    pool: Command, monkeypatch: pytest.MonkeyPatch, suffix: str, missing: str, install: str
) -> None:
    pool.write(field(0, "t"))
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert f'{install}, or "xmml[archives]"' in pool.told("export", "--to", f"x{suffix}", status=2)


def test_objects_are_dropped(pool: Command) -> None:
    pool.write(*(field(step, param) for step in range(2) for param in "tu"), field(0, "t"))
    assert pool.told("compact", "--drop", "param = 'u'").startswith("3 of 5 objects stay; the segments had ")
    assert pool.told("compact", "--last-of", "step,param").startswith("2 of 3 objects stay; ")
    assert "step=1 param=t" in pool.told("ls", "--most", "1")
    assert pool.told("compact", "--select", "step = 0").startswith("1 of 2 objects stays; ")
    assert pool.told("verify") == "1 object, all as written\n"


@pytest.mark.parametrize("option", ["--drop", "--select"])
@pytest.mark.parametrize("selector", ["", " "])
def test_an_empty_selector_drops_nothing(pool: Command, option: str, selector: str) -> None:
    pool.write(field(0, "t"), field(1, "t"))
    assert "is empty, and would choose every object" in pool.told("compact", option, selector, status=2)
    assert pool.told("verify") == "2 objects, all as written\n"


def test_segments_that_stay_for_readers_are_told(pool: Command) -> None:
    from xmml_native.archives.archive import Archive

    pool.write(field(0, "t"), field(1, "t"))
    with Archive(pool.path):
        assert "1 segment will be removed by the next program that writes the archive, once its" in pool.told(
            "compact", "--drop", "step = 0"
        )


def test_an_archive_that_is_being_written_is_not_compacted(pool: Command) -> None:
    from xmml_native.archives.writer import ArchiveWriter

    pool.write(field(0, "t"))
    with ArchiveWriter(pool.path):
        assert pool.told("compact", status=2) == f"xmml pool compact: {pool.path} is being written by another program\n"


def test_a_suffix_may_have_capitals(pool: Command) -> None:
    pool.write(field(0, "t"))
    assert pool.told("export", "--to", "X.NPY") == "1 of 1 object is in X.NPY\n"
    assert np.load("X.NPY").tolist() == [[0, 0]]


def test_changed_and_unreadable_objects_are_counted_apart(pool: Command) -> None:
    pool.write(field(0, "t"), field(1, "t"))
    pool.write(field(2, "t"))
    segment = Path(pool.path, "segment-000001")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    Path(pool.path, "segment-000002").unlink()
    assert xmml(["pool", "verify", pool.path]) == 1
    assert pool.said().out == "3 objects, 1 changed, 1 cannot be read\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["export", "--to", "x.npy", "--fill", "x"], 'argument --fill: "x" is no number'),
        (["ls", "--most", "-1"], 'argument --most: "-1" is no number of objects'),
        (["compact", "--last-of", ""], 'argument --last-of: "" has no name where one is needed'),
        (["export", "--to", "x.npy", "--dims", "step,,param"], 'argument --dims: "step,,param" has no name'),
    ],
)
def test_words_that_an_option_cannot_have_are_told(pool: Command, words: list[str], problem: str) -> None:
    pool.write(field(0, "t"))
    with pytest.raises(SystemExit):
        xmml(["pool", words[0], pool.path, *words[1:]])
    assert problem in pool.said().err


@pytest.mark.parametrize("payload", [None, "a\0b"])
def test_what_hdf5_cannot_hold_is_named_and_leaves_nothing(pool: Command, payload: str | None) -> None:
    path = written(pool.folder, [(1, {"s": "whole"}), (payload, {"s": "whole" if payload else "a\0b"})], "s:str")
    what = "the payload of object 2" if payload else "s of object 2"
    pool.path = path
    assert f"HDF5 cannot hold {what}: " in pool.told("export", "--to", "x.h5", status=2)
    assert [each.name for each in pool.folder.iterdir()] == ["objects.archive"]


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_attributes_that_are_called_as_the_array_or_its_axes_are_told_with_the_way_out(
    pool: Command, suffix: str
) -> None:
    import xarray

    objects = [(np.ones(2), {"data": step, "axis0": -step}) for step in range(2)]
    pool.path = written(pool.folder, objects, "data:int axis0:int")
    to = f"x{suffix}"
    assert "axis0 is an attribute of the objects" in pool.told("export", "--to", to, status=2)
    told = pool.told("export", "--to", to, "--axes", "x", status=2)
    assert "data is an attribute of the objects, and the array cannot have the same name; give it another one" in told
    pool.told("export", "--to", to, "--axes", "x", "--name", "height")
    with xarray.open_dataset(to, engine="h5netcdf" if suffix == ".nc" else "zarr") as found:
        assert (found["height"].dims, found["data"].values.tolist()) == (("object", "x"), [0, 1])


def test_a_file_that_a_library_cannot_write_is_told_by_the_path_that_it_would_have(
    pool: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import xarray

    def refused(_: object, path: str, **__: object) -> None:
        raise ValueError(f"no way to {path}")

    monkeypatch.setattr(xarray.Dataset, "to_netcdf", refused)
    pool.write(field(0, "t"))
    told = pool.told("export", "--to", "x.nc", status=2)
    assert told == "xmml pool export: x.nc cannot be written: no way to x.nc\n"


def test_what_an_export_that_was_killed_left_goes_with_the_next_one(pool: Command) -> None:
    import fcntl

    pool.write(field(0, "t"))
    old, used, new = (pool.folder / f".xmml-export-{name}" for name in ("old", "used", "new"))
    for folder in (old, used, new):
        folder.mkdir()
        (folder / "x.npy").touch()
    for folder in (old, used):
        os.utime(folder, (0, 0))
    descriptor = os.open(used, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        pool.told("export", "--to", "x.npy")
    finally:
        os.close(descriptor)
    assert (old.exists(), used.exists(), new.exists()) == (False, True, True)
