"""Writes objects of an archive as files: each in one of its own, or all in one of NetCDF, Zarr, HDF5 or NumPy."""

from __future__ import annotations

import csv
import fcntl
import importlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xmml_native.archives.archive import Selection
from xmml_native.archives.archived_object import ArchivedObject
from xmml_native.archives.plain import plain, plain_attributes
from xmml_native.errors import ArchiveError
from xmml_native.terminals import npy_bytes

if TYPE_CHECKING:
    from xarray import Dataset

    from xmml_native.archives.arrays import Stack, Which

#: What is written is in a folder of such a name until it is whole; the folder is locked by then.
_PARTS, _BEGINNING_S = ".xmml-export-", 60.0

Write = Callable[["Selection", str, "Arrangement"], int]


@dataclass(frozen=True)
class Arrangement:
    """How objects become one array.

    Attributes:
        dims: attributes that become dimensions; `None`: objects follow each other.
        which: which of objects counts that agree in all of them.
        fill: the elements where there is no object; `None`: NaN.
        axes: names of the axes of the payloads, of files that have names; `None`: `axis0`, `axis1`, ...
        name: of the array, of files that have names.
    """

    dims: Sequence[str] | None = None
    which: Which = "only"
    fill: float | int | None = None
    axes: Sequence[str] | None = None
    name: str = "data"


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes:
        packages: what has to be installed for it.
        write: writes objects to a path; returns how many.
        is_one_array: the objects become one array.
        has_names: the array and its axes have names.
    """

    packages: Sequence[str]
    write: Write
    is_one_array: bool = True
    has_names: bool = False


def write_objects(chosen: Selection, path: str, arrangement: Arrangement) -> int:
    """Write objects to a new file or folder, by its suffix; return how many.

    Raises:
        ArchiveError: the suffix is unknown, there is something already, a package is not installed, the objects are no
            such array, or there is no room. Then there is nothing at the path.
    """
    if not path:
        raise ArchiveError(
            f"the path is empty: name a file with one of {', '.join(filter(None, FORMATS))}, or a folder"
        )
    suffix = os.path.splitext(path)[1].lower() if not path.endswith(os.sep) else ""
    form = FORMATS.get(suffix)
    if form is None:
        known = ", ".join(filter(None, FORMATS))
        raise ArchiveError(f"{path}: no format has the suffix {suffix}; use {known}, or FOLDER/ for a folder")
    if not form.is_one_array and arrangement != Arrangement():
        arrays = ", ".join(known for known, other in FORMATS.items() if other.is_one_array)
        raise ArchiveError(f"{path} holds each object by itself; one array of them is written to {arrays}")
    if not form.has_names and (arrangement.axes is not None or arrangement.name != Arrangement.name):
        named = ", ".join(known for known, other in FORMATS.items() if other.has_names)
        raise ArchiveError(f"{path} has no names; the array and its axes have names in {named}")
    missing = [package for package in form.packages if not _is_installed(package)]
    if missing:
        raise ArchiveError(
            f'{suffix} needs {" and ".join(missing)}: pip install {" ".join(missing)}, or "xmml[archives]"'
        )
    path = path.rstrip(os.sep) or path
    try:
        with _whole(path) as part:
            try:
                return form.write(chosen, part, arrangement)
            except (TypeError, ValueError) as error:  # of a library that has no such attribute or type
                raise ArchiveError(f"{path} cannot be written: {str(error).replace(part, path)}") from None
    except OSError as error:
        raise ArchiveError(f"{path} cannot be written: {error.strerror or error}") from None


def _is_installed(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


@contextmanager
def _whole(path: str) -> Iterator[str]:
    """Give a path where something is written that then stands at `path`; nothing stands there if that fails."""
    if os.path.lexists(path):
        raise ArchiveError(f"there is {path} already")
    parent = os.path.dirname(path) or "."
    _remove_what_was_killed(parent)
    folder = tempfile.mkdtemp(prefix=_PARTS, dir=parent)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # without locks, what is killed stays
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part = os.path.join(folder, os.path.basename(path))
        yield part
        os.rename(part, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def _remove_what_was_killed(parent: str) -> None:
    """Remove the parts of exports into a folder that were killed: nobody holds their locks."""
    for name in os.listdir(parent):
        folder = os.path.join(parent, name)
        if not name.startswith(_PARTS) or os.path.islink(folder):
            continue
        with suppress(OSError):
            if time.time() - os.lstat(folder).st_mtime < _BEGINNING_S:
                continue  # perhaps it is about to be locked
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


# --- each object by itself --------------------------------------------------------------------------------------------


def _folder(chosen: Selection, path: str, _: Arrangement) -> int:
    os.mkdir(path)
    names = ["sys.file", *dict.fromkeys(name for each in chosen for name in each.attributes)]
    count = 0
    with open(os.path.join(path, "objects.csv"), "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names)
        table.writeheader()
        for each in chosen:
            table.writerow({"sys.file": _written(each, path), **plain_attributes(each.attributes)})
            count += 1
    return count


def _written(each: ArchivedObject, folder: str) -> str:
    """Write a payload; return the name of its file."""
    data = each.data
    stem = f"{each.number:08}"
    if isinstance(data, bytes | str):
        name, content = (f"{stem}.bin", data) if isinstance(data, bytes) else (f"{stem}.txt", data.encode())
    elif hasattr(data, "dtype"):
        name, content = f"{stem}.npy", npy_bytes(data)
    else:
        name, content = f"{stem}.json", _json(data).encode()
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)
    return name


def _json(data: Any) -> str:
    return json.dumps(data, default=_nested)


def _nested(value: Any) -> Any:
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value.tolist() if hasattr(value, "tolist") else value.hex()


def _hdf5(chosen: Selection, path: str, _: Arrangement) -> int:
    import h5py
    import numpy

    count = 0
    with h5py.File(path, "w", track_order=True) as file:
        for each in chosen:
            data = each.data
            if data is None:
                data = h5py.Empty("f8")
            elif isinstance(data, bytes):
                data = numpy.void(data) if data else h5py.Empty("V1")
            elif isinstance(data, list | dict):
                data = _json(data)
            with _named(f"the payload of object {each.number}"):
                dataset = file.create_dataset(f"{each.number:08}", data=data)
            for name, value in each.attributes.items():
                with _named(f"{name} of object {each.number}"):
                    dataset.attrs[name] = _attribute(value, numpy)
            count += 1
    return count


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Name what a library cannot write, such as a text with a NUL."""
    try:
        yield
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArchiveError(f"HDF5 cannot hold {what}: {error}; choose other objects, or write a folder") from None


def _attribute(value: Any, numpy: Any) -> Any:
    return numpy.frombuffer(value, "uint8") if isinstance(value, bytes) else plain(value)


# --- one array --------------------------------------------------------------------------------------------------------


def _npy(stack: Stack, path: str, _: Arrangement) -> None:
    from numpy import ndindex
    from numpy.lib.format import open_memmap

    file = open_memmap(path, "w+", stack.dtype, stack.shape)
    within = [slice(None)] * (len(stack.shape) - len(stack.dims))
    for place in ndindex(stack.shape[: len(stack.dims)]):
        file[place] = stack.read([*place, *within])
    file.flush()


def _netcdf(stack: Stack, path: str, how: Arrangement) -> None:
    if stack.dtype.kind == "c" or stack.dtype == "float16":
        raise ArchiveError(f"NetCDF has no {stack.dtype}; .h5, .zarr and .npy have")
    _as_dataset(stack, how).to_netcdf(path, engine="h5netcdf")


def _zarr(stack: Stack, path: str, how: Arrangement) -> None:
    _as_dataset(stack, how).to_zarr(path, zarr_format=2)


def _as_dataset(stack: Stack, how: Arrangement) -> Dataset:
    from xmml_native.archives.data_array import to_xarray

    array = to_xarray(stack, how.axes, how.name)
    if how.name in array.coords or how.name in array.dims:
        raise ArchiveError(
            f"{how.name} is an attribute of the objects, and the array cannot have the same name; give it another one "
            "(--name)"
        )
    return array.to_dataset()


def _of_arrays(write: Callable[[Stack, str, Arrangement], None]) -> Write:
    """Return what writes objects as one array."""

    def write_array(chosen: Selection, path: str, how: Arrangement) -> int:
        stack = chosen.stack(how.dims, which=how.which, fill=how.fill)
        write(stack, path, how)
        return len(stack)

    return write_array


#: By suffix; without one, a folder.
FORMATS: Mapping[str, Format] = {
    "": Format((), _folder, is_one_array=False),
    ".nc": Format(("xarray", "h5netcdf"), _of_arrays(_netcdf), has_names=True),
    ".zarr": Format(("xarray", "zarr"), _of_arrays(_zarr), has_names=True),
    ".npy": Format((), _of_arrays(_npy)),
    ".h5": Format(("h5py",), _hdf5, is_one_array=False),
    ".hdf5": Format(("h5py",), _hdf5, is_one_array=False),
}
