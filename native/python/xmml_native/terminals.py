"""The built-in terminals: sources that send files and sinks that write them (``class="npy"``, ``"csv"`` or ``"text"``),
and those that keep the objects of pools, or put them again (``class="archive"``).

Parameters of a source
    ``file``       the file, relative to the folder of the model; a pattern such as ``wave.*.npy``: a message per file
    ``messages``   ``one`` (default): a file is one message; ``rows``: a message for each index of its first axis
    ``repeat``     ``yes``: begin again at the end, until every receiver has left
    ``start``, ``delta``  time stamp of the first message and time between two (0 by default, units allowed)
    ``delimiter``  between numbers: ``,`` for csv, blanks for text
    ``skip``       header lines to leave out (csv and text)
    ``content``    ``numbers`` (default), or ``text``: the file's text as it is (text)

Parameters of a sink
    ``file``       the files, relative to the work folder: ``wave.npy`` becomes ``wave.0.npy``, ``wave.1.npy``, ...
    ``append``     ``yes``: all messages in one file (csv and text)
    ``delimiter``  as above

Parameters of an archive
    ``file``       its folder: of a sink relative to the work folder, of a source to the folder of the model
    ``select``     which objects a source puts; without it, all
"""

from __future__ import annotations

import importlib
import os

from xmml_native._native import Message
from xmml_native.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from xmml_native.instance import Instance

#: File name suffix of each format where the model gives no file name.
SUFFIXES = {"npy": ".npy", "csv": ".csv", "text": ".txt"}

#: Programs of terminals that stand in packages above this module: they are loaded by their names, as classes are.
OF_OBJECTS = {"archive": "xmml_native.archives.terminal:run"}


def run(me: Instance, form: str) -> None:
    """Run the built-in terminal for files of ``form``: a source if its port is an out port, else a sink."""
    known = (*SUFFIXES, *OF_OBJECTS)
    if form not in known:
        raise Error(f'{me.name}: there is no built-in terminal "{form}"; there are {", ".join(known)}')
    ports = me.spec["ports"]
    if len(ports) != 1:
        raise Error(f"{me.name}: a terminal has one port; the model gives it {len(ports)}")
    port = ports[0]["name"]
    if form in OF_OBJECTS:
        module, _, name = OF_OBJECTS[form].partition(":")
        program = getattr(importlib.import_module(module), name)
        program(me, port, ports[0]["direction"])
    elif ports[0]["direction"] == "out":
        send_all(me, port, form)
    else:
        write_all(me, port, form)


# --- sources ----------------------------------------------------------------------------------------------------------


def send_all(me: Instance, port: str, form: str) -> None:
    """Send the messages of the source's files on ``port``."""
    messages = [part for path in _source_files(me) for part in _parts(me, path, form)]
    start, delta = me.param("start", float, unit="s", default=0.0), me.param("delta", float, unit="s", default=0.0)
    repeat = me.param("repeat", bool, default=False)
    number = 0
    while True:
        for data in messages:
            number += 1
            is_last = not repeat and number == len(messages)
            time = start + (number - 1) * delta
            if not me.send(port, data, time, None if is_last else time + delta):
                return
        if not repeat or not messages:
            return


def _source_files(me: Instance) -> list[str]:
    pattern = me.param("file", default="")
    if not pattern:
        raise Error(
            f'{me.name}: a source needs the parameter "file": add <param id="file" value="..."/> to it in the model'
        )
    path = os.path.join(os.environ.get("XMML_MODEL_DIR", ""), pattern)
    if os.path.exists(path) or not any(mark in pattern for mark in "*?["):
        return [path]
    import glob

    found = sorted(glob.glob(path), key=natural_order)
    if not found:
        raise Error(f'{me.name}: no file matches {path}; check the parameter "file"')
    return found


def natural_order(name: str) -> list[tuple[int, str]]:
    """Key that sorts numbers in names by value.

    >>> sorted(["wave.10.npy", "wave.9.npy"], key=natural_order)
    ['wave.9.npy', 'wave.10.npy']
    """
    import re

    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _parts(me: Instance, path: str, form: str) -> list[Any]:
    messages = me.param("messages", default="one")
    if messages not in ("one", "rows"):
        raise Error(f'{me.name}: messages="{messages}" is unknown; use "one" or "rows"')
    value = _read(me, path, form)
    if messages == "one":
        return [value]
    if isinstance(value, str):
        return value.splitlines()
    if value.ndim == 0:
        raise Error(f'{path} holds a single number; messages="rows" needs an array')
    return [value[index : index + 1].reshape(value.shape[1:]) for index in range(len(value))]


def _read(me: Instance, path: str, form: str) -> Any:
    try:
        if form == "npy":
            import numpy

            return numpy.load(path, allow_pickle=False)
        if me.param("content", default="numbers") == "text":
            with open(path, encoding="utf-8") as file:
                return file.read()
        return _read_numbers(me, path, form)
    except OSError as error:
        raise Error(f'{me.name} cannot read {path}: {error.strerror or error}; check the parameter "file"') from None
    except ValueError as error:
        raise Error(f'{me.name}: {path} does not hold what class="{form}" expects: {error}') from None


def _read_numbers(me: Instance, path: str, form: str) -> Any:
    import numpy

    delimiter = me.param("delimiter", default="") or ("," if form == "csv" else None)
    skip = me.param("skip", int, default=0)
    rows = numpy.loadtxt(path, delimiter=delimiter, skiprows=skip, ndmin=2)
    # A table stays a table in csv; in text one line, or one number per line, is a row of numbers.
    return rows.reshape(-1) if form == "text" and 1 in rows.shape else rows


# --- sinks ------------------------------------------------------------------------------------------------------------


def write_all(me: Instance, port: str, form: str) -> None:
    """Write every message that arrives on ``port``, until its sender ends."""
    write = WRITERS[form]
    delimiter = me.param("delimiter", default="") or ("," if form == "csv" else " ")
    stem, suffix = os.path.splitext(me.param("file", default=me.name))
    suffix = suffix or SUFFIXES[form]
    append = me.param("append", bool, default=False)
    if append and form == "npy":
        raise Error(f'{me.name}: a .npy file holds one array, so append="yes" is for csv and text')
    if append:
        _write(me, stem + suffix, b"", "wb")
    for number, message in enumerate(_messages(me, port)):
        path = stem + suffix if append else f"{stem}.{number}{suffix}"
        _write(me, path, write(message.data, delimiter), "ab" if append else "wb")


def _messages(me: Instance, port: str) -> Iterator[Message]:
    while (message := me.receive_or_end(port)) is not None:
        yield message


def _write(me: Instance, path: str, content: bytes, mode: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, mode) as file:
            file.write(content)
    except OSError as error:
        raise Error(f"{me.name} cannot write {os.path.abspath(path)}: {error.strerror or error}") from None


def npy_bytes(data: Any, delimiter: str = "") -> bytes:
    """The .npy file of an array or number."""
    import io

    import numpy

    array = numpy.asarray(data)
    if array.dtype == object:
        raise Error(f'a .npy file cannot hold {type(data).__name__}; use class="text"')
    file = io.BytesIO()
    numpy.save(file, array, allow_pickle=False)
    return file.getvalue()


def table_bytes(data: Any, delimiter: str = ",") -> bytes:
    """Numbers as text: the last axis of an array along a line; truth values as digits, in text without blanks.

    >>> table_bytes([1.0, 0.5])
    b'1.0,0.5\\n'
    """
    if isinstance(data, str):
        return data.encode() if data.endswith("\n") else f"{data}\n".encode()
    if isinstance(data, bytes):
        return data
    return "".join(f"{line}\n" for line in _lines(data, delimiter)).encode()


def text_bytes(data: Any, delimiter: str = " ") -> bytes:
    """As ``table_bytes``, but truth values stand without a delimiter: a mask reads ``110001``."""
    if isinstance(data, list):
        is_mask = all(isinstance(value, bool) for value in data)
    else:
        is_mask = getattr(getattr(data, "dtype", None), "kind", "") == "b"
    return table_bytes(data, "" if is_mask else delimiter)


def _lines(data: Any, delimiter: str) -> Iterator[str]:
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, list) and any(isinstance(item, (list, dict)) for item in data):
        for item in data:
            yield from _lines(item, delimiter)
    elif isinstance(data, list):
        yield delimiter.join(map(_word, data))
    elif isinstance(data, dict):
        for key, value in data.items():
            yield delimiter.join([key, *_lines(value, delimiter)])
    else:
        yield _word(data)


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else repr(value)


WRITERS: Mapping[str, Callable[[Any, str], bytes]] = {"npy": npy_bytes, "csv": table_bytes, "text": text_bytes}
