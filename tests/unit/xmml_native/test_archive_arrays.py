"""Objects of an archive as one array: attributes become dimensions and coordinates, payloads are read when needed."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from archives import written
from xmml_native.archives.segments import MappedSegments

import xmml
from xmml import ArchiveError, open_archive

ATTRIBUTES = "step:int param:enum(t,u) member:uint date:time share:real wet:bool tags:int[]"


def field(step: int, member: int, **more: Any) -> tuple[Any, dict[str, Any]]:
    """Return a payload of a shape, which says of which object it is, and its attributes."""
    return np.full((2, 3), 10.0 * step + member), {"step": step, "member": member, **more}


def fields(folder: Path, objects: list[tuple[Any, dict[str, Any]]]) -> xmml.Archive:
    return open_archive(written(folder, objects, ATTRIBUTES))


def test_attributes_become_dimensions_in_ascending_order(tmp_path: Path) -> None:
    objects = [field(step, member) for step in (6, 0, 3) for member in (2, 1)]
    with fields(tmp_path, objects) as archive:
        array = archive.select().to_xarray(dims=["step", "member"], axes=["y", "x"], name="height")
        assert (array.name, array.dims, array.shape) == ("height", ("step", "member", "y", "x"), (3, 2, 2, 3))
        assert array["step"].values.tolist() == [0, 3, 6]
        assert array["member"].values.tolist() == [1, 2]
        assert array.sel(step=6, member=1).values.tolist() == [[61.0] * 3] * 2
        np.testing.assert_array_equal(array.values[..., 0, 0], [[1, 2], [31, 32], [61, 62]])


def test_without_dimensions_objects_follow_each_other(tmp_path: Path) -> None:
    with fields(tmp_path, [field(6, 1), field(0, 1), field(6, 1)]) as archive:
        array = archive.select("member = 1").to_xarray()
        assert array.dims == ("object", "axis0", "axis1")
        assert array["object"].values.tolist() == [1, 2, 3]
        assert array["step"].dims == ("object",)
        assert array["step"].values.tolist() == [6, 0, 6]
        assert array.attrs == {"member": 1}


@pytest.mark.parametrize(
    "key",
    [
        {"step": 1},
        {"step": slice(None, None, -1), "axis0": 1},
        {"step": [2, 0], "member": [1], "axis1": [2, 0]},
        {"member": slice(0, 0)},
        {"axis0": slice(1, 2), "axis1": -1},
        {},
    ],
)
def test_parts_are_what_they_are_of_the_whole(tmp_path: Path, key: dict[str, Any]) -> None:
    objects = [(np.random.default_rng(step).random((2, 3)), {"step": step, "member": step % 2}) for step in range(3)]
    with fields(tmp_path, objects) as archive:
        chosen = archive.select()
        whole = chosen.to_xarray(["step", "member"]).load()
        np.testing.assert_array_equal(chosen.to_xarray(["step", "member"]).isel(key).values, whole.isel(key).values)


def test_a_payload_is_read_when_its_elements_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    payload = MappedSegments.payload
    monkeypatch.setattr(MappedSegments, "payload", lambda self, *place: read.append(place) or payload(self, *place))
    known = {"sys.type": "float64", "sys.shape": [2, 3]}
    with fields(tmp_path, [field(step, 1, **known) for step in range(9)]) as archive:
        array = archive.select().to_xarray(dims=["step"])
        assert read == []
        array = array.isel(step=slice(2, 5)).sel(step=3)
        assert read == []
        assert array.values.tolist() == [[31.0] * 3] * 2
        assert len(read) == 1


def test_where_no_object_is_the_elements_are_nan(tmp_path: Path) -> None:
    with fields(tmp_path, [field(0, 1), field(1, 2)]) as archive:
        array = archive.select().to_xarray(dims=["step", "member"])
        np.testing.assert_array_equal(array.values[..., 0, 0], [[1, np.nan], [np.nan, 12]])
        assert np.isnan(array.sel(step=0, member=2).values).all()


@pytest.mark.parametrize(
    ("kind", "fill", "found"),
    [
        ("float32", None, "float32"),
        ("complex64", None, "complex64"),
        ("int16", None, "float64"),
        ("bool", None, "float64"),
        ("int16", -1, "int16"),
        ("bool", False, "bool"),
        ("float32", 0.1, "float32"),
    ],
)
def test_whole_numbers_become_real_ones_where_some_are_missing_unless_something_else_fills_the_gaps(
    tmp_path: Path, kind: str, fill: Any, found: str
) -> None:
    objects = [(np.ones(2, kind), {"step": place, "member": place}) for place in range(2)]
    with fields(tmp_path, objects) as archive:
        array = archive.select().to_xarray(["step", "member"], fill=fill)
        assert archive.select().to_xarray(["step"]).dtype == kind
    assert array.dtype == found
    np.testing.assert_array_equal(array.values[0, 1], np.full(2, np.nan if fill is None else fill, found))
    np.testing.assert_array_equal(array.values[1, 1], np.ones(2))


def test_what_no_element_can_be_fills_no_gap(tmp_path: Path) -> None:
    with (
        fields(tmp_path, [(np.ones(2, "uint8"), {"step": 1})]) as archive,
        pytest.raises(ArchiveError, match=r"the elements are uint8, and fill=-1 is none; without fill, NaN stands"),
    ):
        archive.select().to_xarray(["step"], fill=-1)


def test_objects_that_agree_in_all_dimensions_are_an_error_unless_one_of_them_is_chosen(tmp_path: Path) -> None:
    with fields(tmp_path, [field(3, 1), field(3, 2), field(0, 5)]) as archive:
        chosen = archive.select()
        with pytest.raises(ArchiveError, match="objects 1 and 2 both have step = 3; choose fewer"):
            chosen.to_xarray(["step"])
        assert chosen.to_xarray(["step"], which="first").values[:, 0, 0].tolist() == [5, 31]
        last = chosen.to_xarray(["step"], which="last")
        assert last.values[:, 0, 0].tolist() == [5, 32]
        assert last["member"].values.tolist() == [5, 2]


def test_one_object_needs_no_dimension(tmp_path: Path) -> None:
    with fields(tmp_path, [field(3, 1), field(3, 2)]) as archive:
        assert archive.select("member = 2").to_xarray([]).values.tolist() == [[32.0] * 3] * 2
        with pytest.raises(ArchiveError, match="objects 1 and 2 cannot both be an array without more dimensions"):
            archive.select().to_xarray([])


def test_payloads_of_different_shapes_are_an_error_that_names_both(tmp_path: Path) -> None:
    objects = [field(0, 1), field(1, 1), (np.ones((3, 2)), {"step": 2})]
    with (
        fields(tmp_path, objects) as archive,
        pytest.raises(ArchiveError, match=r"objects 1 and 3 have different shapes, \(2, 3\) and \(3, 2\)"),
    ):
        archive.select().to_xarray(["step"])


def test_types_that_differ_become_one_that_holds_both(tmp_path: Path) -> None:
    objects = [(np.ones(2, "float32"), {"step": 0}), (np.ones(2, "int32"), {"step": 1})]
    with fields(tmp_path, objects) as archive:
        assert archive.select().to_xarray(["step"]).dtype == "float64"


def test_numbers_are_payloads_without_axes(tmp_path: Path) -> None:
    with fields(tmp_path, [(0.5, {"step": 1}), (2, {"step": 0, "sys.type": "int", "sys.shape": []})]) as archive:
        assert archive.select().to_xarray(["step"]).values.tolist() == [2.0, 0.5]


@pytest.mark.parametrize(
    ("data", "kind"), [("text", "str"), (b"", "bytes"), ([1], "list"), ({"a": 1}, "dict"), (None, "NoneType")]
)
def test_other_payloads_are_an_error_that_names_them(tmp_path: Path, data: Any, kind: str) -> None:
    with (
        fields(tmp_path, [field(0, 1), (data, {"step": 1})]) as archive,
        pytest.raises(ArchiveError, match=f"object 2 is of the type {kind}; only arrays and numbers"),
    ):
        archive.select().to_xarray(["step"])


def test_an_object_without_one_of_the_dimensions_is_an_error_that_names_it(tmp_path: Path) -> None:
    with (
        fields(tmp_path, [field(0, 1), (1.0, {"member": 1})]) as archive,
        pytest.raises(ArchiveError, match="object 2 has no step, which is to be a dimension"),
    ):
        archive.select().to_xarray(["step"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dims": ["stap"]}, "there is no attribute 'stap'"),
        ({"dims": ["tags"]}, r"tags is int\[\], which no dimension can be"),
        ({"dims": ["step"], "which": "latest"}, 'which="latest" is unknown; use only, first, last'),
        ({"dims": ["step", "step"]}, "an attribute is a dimension once: step, step"),
        ({"dims": ["step"], "axes": ["x"]}, "the payloads have 2 dimensions, and 1 are named: x"),
        ({"dims": ["step"], "axes": ["step", "x"]}, "step is an attribute of the objects"),
        ({"dims": ["step"], "axes": ["member", "x"]}, "member is an attribute of the objects"),
        ({"dims": ["step"], "axes": ["x", "x"]}, "a name of its own"),
    ],
)
def test_dimensions_that_cannot_be_are_an_error(tmp_path: Path, arguments: Mapping[str, Any], problem: str) -> None:
    with fields(tmp_path, [field(0, 1)]) as archive, pytest.raises(ArchiveError, match=problem):
        archive.select().to_xarray(**arguments)


def test_no_object_is_an_error(tmp_path: Path) -> None:
    with fields(tmp_path, [field(0, 1)]) as archive, pytest.raises(ArchiveError, match="chooses no object"):
        archive.select("step > 3").to_xarray()


def test_other_attributes_are_coordinates_along_the_dimensions_on_which_they_depend(tmp_path: Path) -> None:
    day = datetime(2026, 11, 27, tzinfo=UTC)
    objects = [
        field(step, member, date=day.replace(hour=step), share=float(step * member), param="t", **{"sys.instance": "w"})
        for step in (0, 6)
        for member in (1, 2)
    ]
    with fields(tmp_path, objects) as archive:
        array = archive.select().to_xarray(["step", "member"])
    assert array["date"].dims == ("step",)
    assert array["date"].values.astype(str).tolist() == ["2026-11-27T00:00:00.000000", "2026-11-27T06:00:00.000000"]
    assert array["share"].dims == ("step", "member")
    assert array["share"].values.tolist() == [[0, 0], [6, 12]]
    assert array.attrs == {"param": "t", "sys.instance": "w"}


def test_attributes_that_some_objects_lack_are_nan_nat_or_an_empty_text(tmp_path: Path) -> None:
    day = datetime(2026, 11, 27, tzinfo=UTC)
    more = {"member": 2**60, "date": day, "share": 0.5, "wet": True, "param": "u", "tags": [1, 2]}
    with fields(tmp_path, [(1.0, {"step": 0}), (2.0, {"step": 1, **more})]) as archive:
        array = archive.select().to_xarray(["step"])
    assert {name: str(each.values[0]) for name, each in array.coords.items()} == {
        "step": "0",
        "param": "",
        "member": "nan",
        "date": "NaT",
        "share": "nan",
        "wet": "nan",
        "tags": "",
    }
    assert array["tags"].values[1] == "[1, 2]"
    assert array["date"].values[1] == np.datetime64("2026-11-27")


def test_an_index_that_lies_about_a_payload_is_an_error_when_it_is_read(tmp_path: Path) -> None:
    with fields(tmp_path, [field(0, 1, **{"sys.type": "float64", "sys.shape": [2, 2]})]) as archive:
        array = archive.select().to_xarray(["step"])
        with pytest.raises(ArchiveError, match="object 1 is not the array that the index says"):
            array.load()


def test_without_xarray_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    monkeypatch.delitem(sys.modules, "xmml_native.archives.data_array", raising=False)
    with fields(tmp_path, [field(0, 1)]) as archive, pytest.raises(ImportError, match="pip install xarray"):
        archive.select().to_xarray()


@pytest.mark.parametrize(
    ("kind", "fill"),
    [("int16", "x"), ("float32", "x"), ("float32", 1j), ("int16", 0.5), ("int16", [1]), ("uint8", 2**70), ("f4", {})],
)
def test_a_fill_that_no_element_is_is_told(tmp_path: Path, kind: str, fill: Any) -> None:
    with (
        fields(tmp_path, [(np.ones(2, kind), {"step": 1})]) as archive,
        pytest.raises(ArchiveError, match=r"and fill=.* is none"),
    ):
        archive.select().to_xarray(["step"], fill=fill)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"dims": "step"}, r'dims is a list of attributes, not a text: dims=\["step"\]'),
        ({"axes": "yx"}, r'axes is a list of names, not a text: axes=\["yx"\]'),
        ({"which": "newest"}, 'which="newest" is unknown; use only, first, last'),
        ({"axes": ["x", "member"]}, "member is an attribute of the objects, .*; name the axes otherwise"),
    ],
)
def test_an_argument_of_another_kind_is_told(tmp_path: Path, arguments: dict[str, Any], problem: str) -> None:
    with fields(tmp_path, [field(0, 1)]) as archive, pytest.raises(ArchiveError, match=problem):
        archive.select().to_xarray(**arguments)


def test_an_array_is_pickled_when_its_values_are_read_and_copied_before(tmp_path: Path) -> None:
    with fields(tmp_path, [field(0, 1), field(1, 1)]) as archive:
        array = archive.select().to_xarray(dims=["step"])
        with pytest.raises(TypeError, match=r"cannot be pickled before its values are read: call load\(\) first"):
            pickle.dumps(array)
        assert array.copy(deep=True).values.tolist() == array.values.tolist()
        again = pickle.loads(pickle.dumps(array.load()))
    xarray.testing.assert_identical(again, array)
