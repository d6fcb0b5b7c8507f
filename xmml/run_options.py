"""The run extension `urn:xmml:run:1`: what xMML 0.4 lacks for starting programs and moving messages.

Each `run:` attribute has one row in `SETTINGS`: the elements it may stand on, and how its value is read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import field
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any

from xmml.late_dataclass import dataclass
from xmml.problems import Problem, did_you_mean
from xmml.tree import RUN, Element
from xmml.units import Dimension, UnitError, parse


@dataclass(frozen=True)
class RunOptions:
    """How the program of an implementation is prepared and started.

    Attributes:
        args: arguments of the program.
        env: variables added to its environment.
        mpi: number of MPI ranks, if it is an MPI program.
        build: shell command that builds it, run once per site before the start.
        stage_in: files and globs it needs beside it.
        stage_exclude: patterns, as in `.gitignore`, of files that it does not need where it runs.
        stage_out: files and globs to bring back.
        threads: threads per process (or per rank).
        gpus: GPUs per process (or per rank).
        host: the host it must run on, or `own`: it must not share a process.
        needs: software that must be there where it runs.
        bind: the cores that it is bound to, as `Instance.bind`.
        image: the image of Apptainer or Singularity that it runs in, relative to the document.
    """

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mpi: int | None = None
    build: str | None = None
    stage_in: tuple[str, ...] = ()
    stage_exclude: tuple[str, ...] = ()
    stage_out: tuple[str, ...] = ()
    threads: int | None = None
    gpus: int | None = None
    host: str | None = None
    needs: tuple[str, ...] = ()
    bind: str | None = None
    image: str | None = None


#: How messages can travel, fastest first.
METHODS = ("inproc", "shm", "unix", "tcp", "relay")
TRAFFIC_CLASSES = ("bulk", "control")
#: What a coupling carries: every message in order, the objects that its receiver chooses, or the newest of these only.
COUPLING_KINDS = ("message", "pool", "latest")
#: Who gets an object of a pool: each copy of the receiver, or one of them.
SHARES = ("each", "queue")
#: Whether a receiver of a pool that is slow may lose objects.
LOSSES = ("never", "allowed")

#: What the death of a copy of an instance does to the run.
ON_DEATH = ("stop", "continue")

#: What an instance may be bound to, besides a list of CPUs: nothing, cores of its own, a NUMA node.
BINDINGS = ("none", "core", "numa")
#: CPUs have smaller numbers.
_MOST_CPUS = 1 << 13

#: The values of `run:compress` that have no level.
_COMPRESSION: Mapping[str, str | None] = MappingProxyType({"yes": "zstd:3", "no": None, "lz4": "lz4", "zstd": "zstd:3"})
_ZSTD_LEVEL = re.compile(r"[1-9]|1[0-9]|2[0-2]")

_LARGEST_COUNT = 2**31 - 1
_MOST_BYTES = 2**63 - 1
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SettingError(ValueError):
    """A value that a setting cannot have; the text says what it expects."""


def _count(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*", text) or not least <= int(text) <= _LARGEST_COUNT:
            raise SettingError(f"expected a whole number of at least {least}")
        return int(text)

    return read


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise SettingError(f"it cannot be split like a shell command: {str(error).lower()}") from None


def _results(text: str) -> tuple[str, ...]:
    words = _words(text)
    for word in words:
        if word.startswith("/") or ".." in word.split("/") or "\0" in word:
            raise SettingError(f'"{word}": results lie below the working folder, without / before or .. in their paths')
    return words


def _environment(text: str) -> Mapping[str, str]:
    variables = {}
    for word in _words(text):
        name, equals, value = word.partition("=")
        if not equals or not _VARIABLE.fullmatch(name):
            raise SettingError(f'"{word}" is not NAME=VALUE')
        if name.startswith("XMML_"):
            raise SettingError(f"{name}: variables that begin with XMML_ are set by the run itself")
        variables[name] = value
    return MappingProxyType(variables)


def _yes_or_no(text: str) -> bool:
    return _one_of("yes", "no")(text) == "yes"


def _one_of(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise SettingError(did_you_mean(text, known, "values"))
        return text

    return read


#: Methods whose connections are sockets, and may be given another buffer: `tcp:buffer=4MiB`.
BUFFERED = ("unix", "tcp")
_BUFFER = re.compile(r"buffer=[1-9][0-9]{0,9}(k|Ki|M|Mi)?B?")


def method_name(choice: str) -> str:
    """Return the method that is asked for, without its parameters.

    >>> method_name("tcp:buffer=4MiB")
    'tcp'
    """
    return choice.partition(":")[0]


def _methods(text: str) -> tuple[str, ...]:
    choices = tuple(word for word in re.split(r"[\s,]+", text.strip()) if word)
    methods = [method_name(choice) for choice in choices]
    for choice, method in zip(choices, methods, strict=True):
        if method not in METHODS:
            raise SettingError(f'"{method}" is not a method; {did_you_mean(method, METHODS, "methods")}')
        if methods.count(method) > 1:
            raise SettingError(f'"{method}" is named twice')
        parameter = choice.removeprefix(method).removeprefix(":")
        if parameter and not (method in BUFFERED and _BUFFER.fullmatch(parameter)):
            raise SettingError(
                f'"{choice}": the only parameter is buffer, of {" and ".join(BUFFERED)}: "tcp:buffer=4MiB"'
            )
    if not choices:
        raise SettingError(f"expected methods separated by commas, of {', '.join(METHODS)}")
    return choices


def _names(text: str) -> tuple[str, ...]:
    names = tuple(word for word in re.split(r"[\s,]+", text.strip()) if word)
    if not names:
        raise SettingError("expected names of software, separated by commas")
    return tuple(dict.fromkeys(names))


def _compression(text: str) -> str | None:
    """Return "lz4" or "zstd:<level>"; None: no compression."""
    method, colon, level = text.strip().partition(":")
    if not colon and method in _COMPRESSION:
        return _COMPRESSION[method]
    if method == "zstd" and colon:
        if not _ZSTD_LEVEL.fullmatch(level):
            raise SettingError(f'expected a level of zstd from 1 to 22, not "{level}"')
        return f"zstd:{level}"
    raise SettingError(did_you_mean(text.strip(), (*_COMPRESSION, "zstd:3"), "values"))


def _bytes(text: str) -> int:
    try:
        size = float(parse(text, Dimension.DATA))
    except UnitError as error:
        raise SettingError(f'expected a size, as in "64 MB": {error}') from None
    if not 1 <= size <= _MOST_BYTES:
        raise SettingError("expected a size of at least one byte, and at most 8 EiB")
    return int(size)


def _filled(text: str) -> str:
    if not text.strip():
        raise SettingError("it is empty")
    return text.strip()


_CPUS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def cpu_numbers(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list as Linux writes it.

    >>> cpu_numbers("0-2,8")
    (0, 1, 2, 8)

    Raises:
        SettingError: the text is no such list.
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        ends = _CPUS.fullmatch(part.strip())
        first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (1, 0)
        if not first <= last < _MOST_CPUS:
            raise SettingError(f'"{part.strip()}" is neither a CPU nor a range of CPUs, as in "0-3,8"')
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))


def binding(text: str) -> str:
    """Return what an instance is bound to: one of `BINDINGS`, or a list of CPUs.

    Raises:
        SettingError: the text is neither.
    """
    if text.strip() in BINDINGS:
        return text.strip()
    if not re.match(r"\s*[0-9]", text):
        raise SettingError(f'expected {", ".join(BINDINGS)}, or a list of CPUs, as in "0-3,8"')
    cpu_numbers(text)
    return re.sub(r"\s", "", text)


def _image(text: str) -> str:
    if "://" in text:
        kept = re.sub(r"[^A-Za-z0-9_.-]", "-", text.rpartition("/")[2]) or "image"
        raise SettingError(f"an image is a file or folder: make one with apptainer pull {kept}.sif {text.strip()}")
    return _filled(text)


_CUT = re.compile(r"\s*([A-Za-z_][\w.-]*|[0-9]{1,2})\s*:\s*([0-9]{1,10})\s*")

#: How an array is spread over ranks: the dimensions that are cut (the id of a spacescale, or a number from 0), and into
#: how many parts. Ranks are numbered through them, the last one fastest.
Decomposition = tuple[tuple[str, int], ...]


def _decomposition(text: str) -> Decomposition:
    found = re.fullmatch(r"\s*block\s*\(([^()]*)\)\s*", text)
    cuts = []
    for cut in found.group(1).split(",") if found else ("",):
        parts = _CUT.fullmatch(cut)
        if parts is None or not 1 <= int(parts.group(2)) <= _LARGEST_COUNT:
            raise SettingError('expected dimensions and into how many parts each is cut: "block(x:4,y:2)"')
        cuts.append((parts.group(1), int(parts.group(2))))
    return tuple(cuts)


@dataclass(frozen=True)
class _Setting:
    elements: tuple[str, ...]
    read: Callable[[str], Any]


_IMPLEMENTATION = ("implementation",)
_COUPLING = ("coupling",)
_INSTANCE = ("instance", "submodel")
_PORT = ("in", "out")

#: Every setting of the run extension.
SETTINGS: Mapping[str, _Setting] = MappingProxyType(
    {
        "args": _Setting(_IMPLEMENTATION, _words),
        "env": _Setting(_IMPLEMENTATION, _environment),
        "mpi": _Setting(_IMPLEMENTATION, _count(1)),
        "build": _Setting(_IMPLEMENTATION, _filled),
        "stage-in": _Setting(_IMPLEMENTATION, _words),
        "stage-exclude": _Setting(_IMPLEMENTATION, _words),
        "stage-out": _Setting(_IMPLEMENTATION, _results),
        "threads": _Setting(_IMPLEMENTATION, _count(1)),
        "gpus": _Setting(_IMPLEMENTATION, _count(0)),
        "needs": _Setting(_IMPLEMENTATION, _names),
        "image": _Setting(_IMPLEMENTATION, _image),
        "host": _Setting(("implementation", "instance", "submodel", "mapper", "terminal"), _filled),
        "bind": _Setting(("implementation", "instance", "submodel", "mapper", "terminal"), binding),
        "capacity": _Setting(_COUPLING, _count(1)),
        "methods": _Setting(_COUPLING, _methods),
        "compress": _Setting(_COUPLING, _compression),
        "class": _Setting(_COUPLING, _one_of(*TRAFFIC_CLASSES)),
        "protect": _Setting(_COUPLING, _yes_or_no),
        "kind": _Setting(_COUPLING, _one_of(*COUPLING_KINDS)),
        "select": _Setting(_COUPLING, _filled),
        "share": _Setting(_COUPLING, _one_of(*SHARES)),
        "loss": _Setting(_COUPLING, _one_of(*LOSSES)),
        "limit": _Setting(_COUPLING, _bytes),
        "attributes": _Setting(("datatype",), str),
        "steps": _Setting(_INSTANCE, _one_of("until")),
        "order": _Setting(_INSTANCE, _one_of("free", "checked")),
        "on-death": _Setting(_INSTANCE, _one_of(*ON_DEATH)),
        "decomp": _Setting(_PORT, _decomposition),
        "open": _Setting(_PORT, _yes_or_no),
    }
)


def settings_of(element: Element) -> dict[str, Any]:
    """Return the readable settings of an element by name; the others are left to `problems_of`."""
    settings = {}
    for attribute in element.attributes:
        if attribute.namespace != RUN or not belongs(attribute.name, element):
            continue
        try:
            settings[attribute.name] = SETTINGS[attribute.name].read(attribute.value)
        except SettingError:
            continue
    return settings


def problems_of(element: Element) -> list[Problem]:
    """Return what is wrong with the `run:` attributes of an element."""
    problems = []
    for attribute in element.attributes:
        if attribute.namespace != RUN:
            continue
        name = attribute.name
        if not belongs(name, element):
            problems.append(_misplaced(name, element))
            continue
        try:
            SETTINGS[name].read(attribute.value)
        except SettingError as error:
            message = f'run:{name}="{attribute.value}" is not possible'
            problems.append(element.problem("E02", message, str(error), name, RUN))
    return problems


#: How similar to `RUN` the namespace of somebody else is at most.
_SIMILARITY = 0.9


def is_misspelt_run(prefix: str, namespace: str) -> bool:
    """Whether a prefix was meant to stand for the run extension, but stands for another namespace.

    >>> is_misspelt_run("run", "urn:xmml:run"), is_misspelt_run("other", "urn:example")
    (True, False)
    """
    if namespace in ("", RUN):
        return False
    written = namespace.lower()
    return (
        prefix == "run"
        or written.startswith("urn:xmml")
        or SequenceMatcher(None, written[:80], RUN).ratio() >= _SIMILARITY
    )


def right_namespace(prefix: str, namespace: str) -> str:
    """Return what to write for a prefix that was meant to stand for the run extension."""
    declaration = f"xmlns:{prefix}" if prefix else "xmlns"
    return f'write {declaration}="{RUN}", not {declaration}="{namespace}"'


def belongs(name: str, element: Element) -> bool:
    """Whether an element may have the setting `run:NAME`."""
    return name in SETTINGS and element.name in SETTINGS[name].elements


def _misplaced(name: str, element: Element) -> Problem:
    if name in SETTINGS:
        places = " or ".join(f"<{place}>" for place in SETTINGS[name].elements)
        return element.problem(
            "E02", f"run:{name} has no meaning on <{element.name}>", f"it belongs on {places}", name, RUN
        )
    here = [setting for setting, row in SETTINGS.items() if element.name in row.elements]
    help = did_you_mean(name, here or SETTINGS, f"settings of <{element.name}>" if here else "settings")
    help = re.sub(r'"([a-z-]+)"', r'"run:\1"', help)
    return element.problem("E02", f"there is no setting run:{name}", help, name, RUN)


def run_options(implementation: Element) -> RunOptions:
    """Return the run options of an implementation element."""
    settings = settings_of(implementation)
    return RunOptions(
        args=settings.get("args", ()),
        env=settings.get("env", MappingProxyType({})),
        mpi=settings.get("mpi"),
        build=settings.get("build"),
        stage_in=settings.get("stage-in", ()),
        stage_exclude=settings.get("stage-exclude", ()),
        stage_out=settings.get("stage-out", ()),
        threads=settings.get("threads"),
        gpus=settings.get("gpus"),
        host=settings.get("host"),
        needs=settings.get("needs", ()),
        bind=settings.get("bind"),
        image=settings.get("image"),
    )
