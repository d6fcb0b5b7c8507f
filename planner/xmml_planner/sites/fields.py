"""What stands in a `sites.toml`: every key with its place, what it may hold, and how that is read."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from xmml.late_dataclass import dataclass
from xmml.problems import did_you_mean
from xmml.units import UnitError
from xmml_planner.sites.amounts import rate, size_bytes, time_s
from xmml_planner.sites.catalogue import MOST_STREAMS
from xmml_planner.sites.toml_positions import Node

TRANSPORTS = ("asyncssh", "openssh")
SCHEDULERS = ("local", "slurm", "pbs")
DIALECTS = ("openpbs", "torque")
LINK_METHODS = ("tcp", "relay")

_LARGEST_COUNT = 2**31 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
#: A network device, as Linux allows its name.
_DEVICE = re.compile(r"[^\s/:]{1,15}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/@\[\]]+):(\d{1,5})")
#: As `xmml_sites.ssh.destination` reads it.
_OF_SHELLS, _OF_PATTERNS = r"\s@:/'\"`$;&<>|(){}", r"\[\]*?!,#\\"
_DESTINATION = re.compile(
    rf"(?:[^{_OF_SHELLS}-][^{_OF_SHELLS}]*@)?"
    rf"(?:\[[0-9A-Fa-f:.]+\]|[^{_OF_SHELLS}{_OF_PATTERNS}-][^{_OF_SHELLS}{_OF_PATTERNS}]*)(?::(\d{{1,5}}))?"
)


class FieldError(ValueError):
    """A value that a key cannot have.

    Attributes:
        node: what is wrong, if it is a part of the value.
        help: what to do about it.
    """

    def __init__(self, message: str, help: str = "", node: Node | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
        self.node = node


@dataclass(frozen=True)
class Field:
    """A key: the attribute of the value that it becomes, and how it is read."""

    attribute: str
    read: Callable[[Node], Any]


def _kind(value: Any) -> str:
    """Return what a TOML value is, in words."""
    for kind, word in (
        (bool, "true or false"),
        (str, "a text"),
        (int, "a whole number"),
        (float, "a number"),
        (list, "a list"),
        (dict, "a table"),
    ):
        if isinstance(value, kind):
            return f"{value!r}".lower() if kind is bool else word
    return "a date or time"


def _text(node: Node, what: str, example: str) -> str:
    if not isinstance(node.value, str):
        raise FieldError(f"expected {what}, found {_kind(node.value)}", f"write {example}")
    if not node.value.strip():
        raise FieldError("this is empty", f"write {example}, or leave the key out")
    if "\n" in node.value or "\0" in node.value:
        raise FieldError("this must be one line", f"write {example}")
    return node.value


def text(example: str) -> Callable[[Node], str]:
    """Read a text of one line."""
    return lambda node: _text(node, "a text in quotes", f'"{example}"')


def count(least: int, unit: str = "") -> Callable[[Node], int]:
    """Read a whole number."""

    def read(node: Node) -> int:
        expected = f"a whole number of at least {least}"
        if type(node.value) is not int:
            found = _kind(node.value)
            without = "without quotes" if isinstance(node.value, str) and node.value.strip().isdigit() else ""
            raise FieldError(
                f"expected {expected}, found {found}", f"write {node.value.strip()} {without}" if without else ""
            )
        if not least <= node.value <= _LARGEST_COUNT:
            raise FieldError(f"expected {expected}, found {node.value}", unit)
        return int(node.value)

    return read


def number(least: float, example: str, exclusive: bool = False) -> Callable[[Node], float]:
    """Read a number."""

    def read(node: Node) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise FieldError(f"expected a number, found {_kind(value)}", f"write {example}")
        if not math.isfinite(value) or value < least or (exclusive and value == least):
            raise FieldError(f"expected a number {'above' if exclusive else 'of at least'} {least:g}, found {value}")
        return float(value)

    return read


def flag(node: Node) -> bool:
    """Read true or false."""
    if not isinstance(node.value, bool):
        raise FieldError(f"expected true or false, found {_kind(node.value)}", "write true or false, without quotes")
    return node.value


def one_of(words: tuple[str, ...]) -> Callable[[Node], str]:
    """Read one of some words."""

    def read(node: Node) -> str:
        if not isinstance(node.value, str):
            raise FieldError(
                f"expected one of {', '.join(_quoted(words))}, found {_kind(node.value)}", f'write "{words[0]}"'
            )
        if node.value not in words:
            raise FieldError(
                f'"{node.value}" is none of {", ".join(_quoted(words))}', did_you_mean(node.value, words, "values")
            )
        return node.value

    return read


def texts(example: str) -> Callable[[Node], tuple[str, ...]]:
    """Read a list of texts."""

    def read(node: Node) -> tuple[str, ...]:
        if not isinstance(node.value, list):
            help = f'write ["{node.value}"]' if isinstance(node.value, str) else f'write ["{example}"]'
            raise FieldError(f"expected a list of texts, found {_kind(node.value)}", help)
        read_one = text(example)
        read_all = []
        for element in node.elements:
            try:
                read_all.append(read_one(element))
            except FieldError as error:
                raise FieldError(error.message, error.help, element) from None
        return tuple(read_all)

    return read


def quantity(read_text: Callable[[str], float | int], example: str, zero: bool = False) -> Callable[[Node], Any]:
    """Read a quantity with its unit, above zero (or from zero)."""

    def read(node: Node) -> float | int:
        if not isinstance(node.value, str):
            found = _kind(node.value)
            numeric = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
            unit = example.partition(" ")[2]
            help = f'write the number with its unit, in quotes: "{node.value} {unit}"' if numeric else f'"{example}"'
            raise FieldError(f"expected a quantity with a unit, found {found}", help)
        try:
            value = read_text(node.value)
        except UnitError as error:
            raise FieldError(str(error)) from None
        if value < 0 or (value == 0 and not zero):
            raise FieldError(f'"{node.value}" is not above zero', f'write, for example, "{example}"')
        return value

    return read


def environment(node: Node) -> Mapping[str, str]:
    """Read a table of variables."""
    if not isinstance(node.value, dict):
        raise FieldError(f"expected a table, found {_kind(node.value)}", 'write { NAME = "value" }')
    variables = {}
    for name, child in node.children.items():
        if not _VARIABLE.fullmatch(name):
            raise FieldError(f'"{name}" is not a name of a variable', "letters, digits and underscores", child)
        if not isinstance(child.value, str):
            help = f'{name} = "{child.value}"' if isinstance(child.value, (int, float)) else ""
            raise FieldError(f"expected a text in quotes, found {_kind(child.value)}", help, child)
        if "\n" in child.value or "\0" in child.value:
            raise FieldError("the value of a variable must be one line", "", child)
        variables[name] = child.value
    return variables


def name(node: Node) -> str:
    """Read the name of a site."""
    return _text(node, "the name of a site in quotes", '"alpha"')


def destination(node: Node) -> str:
    """Read an ssh destination."""
    value = _text(node, "an ssh destination in quotes", '"user@login.example.org"')
    if value.startswith("ssh://"):
        raise FieldError("this is a URL", f'write "{value[6:].rstrip("/")}"')
    if value.split()[0] == "ssh":
        raise FieldError("this is a command", f'write the destination alone: "{value.split()[-1]}"')
    match = _DESTINATION.fullmatch(value)
    if match is None or (match.group(1) and not 0 < int(match.group(1)) < 65536):
        raise FieldError(
            f'"{value}" is not an ssh destination',
            'write a host of your ~/.ssh/config, "user@host" or "user@host:port"; options such as keys and jumps '
            "belong in ~/.ssh/config",
        )
    return value


def host_port(node: Node) -> str:
    """Read `host:port`."""
    value = _text(node, '"host:port"', '"login.example.org:40001"')
    match = _HOST_PORT.fullmatch(value)
    if match is None or not 0 < int(match.group(1)) < 65536:
        raise FieldError(f'"{value}" is not host:port', 'write, for example, "login.example.org:40001"')
    return value


def port(node: Node) -> int:
    """Read a port number; 0: any."""
    value = count(0)(node)
    if value > 65535:
        raise FieldError(f"{value} is not a port", "ports go up to 65535; 0 or no key at all: any free one")
    return value


def launcher(node: Node) -> str:
    """Read how MPI programs are started."""
    value = _text(node, '"srun", "mpirun" or a command in quotes', '"srun"')
    try:
        shlex.split(value)
    except ValueError as error:
        raise FieldError(f"this command cannot be split into words: {error}", "close what is quoted") from None
    if value not in ("srun", "mpirun") and "{ranks}" not in value:
        raise FieldError(
            "this command does not say where the number of ranks goes", f'write, for example, "{value} -n {{ranks}}"'
        )
    return value


#: Options of Apptainer that mean --cleanenv.
_FORGET_ENVIRONMENT = ("--cleanenv", "-e", "--containall", "-C", "--compat")


def container(node: Node) -> str:
    """Read how programs in images are started."""
    value = _text(node, '"apptainer", "singularity" or a command in quotes', '"apptainer"')
    words = value.split()
    if len(words) > 1 and "{image}" not in words:
        raise FieldError(
            "this command does not say where the image goes", 'write, for example, "apptainer exec --rocm {image}"'
        )
    if forgetful := next((word for word in words if word in _FORGET_ENVIRONMENT), None):
        raise FieldError(
            f"{forgetful} takes the environment from programs, by which they learn what to join",
            'for namespaces and folders of their own, write "--contain --pid --ipc"',
        )
    return value


def listening(node: Node) -> str:
    """Read where instances listen: "node", "loopback", or a network device."""
    value = _text(node, '"node", "loopback" or a network device in quotes', '"node"')
    if not _DEVICE.fullmatch(value):
        help = 'write "node", "loopback", or a name like "ib0"'
        if ":" in value:
            help += "; host:port at which others dial the relay stands in [site.NAME.relay]"
        raise FieldError(f'"{value}" is no name of a network device', help)
    return value


def streams(node: Node) -> int | None:
    """Read a number of streams, or "auto"."""
    if node.value == "auto":
        return None
    if type(node.value) is not int or not 1 <= node.value <= MOST_STREAMS:
        found = f'"{node.value}"' if isinstance(node.value, str) else node.value
        raise FieldError(f'expected "auto" or a number from 1 to {MOST_STREAMS}, found {found}')
    return node.value


def methods(node: Node) -> tuple[str, ...]:
    """Read how messages can go over a link."""
    words = texts("relay")(node)
    for word, element in zip(words, node.elements, strict=True):
        if word not in LINK_METHODS:
            raise FieldError(
                f'"{word}" is no way between sites; there are "tcp" (instances reach each other) and "relay"',
                did_you_mean(word, LINK_METHODS, "methods"),
                element,
            )
    if not words:
        raise FieldError("no method is left for messages over this link", 'write ["relay"], or leave the key out')
    return tuple(dict.fromkeys(words))


def pair(node: Node) -> tuple[str, str]:
    """Read the two ends of a link."""
    names = texts("alpha")(node)
    if len(names) != 2:
        raise FieldError(f"a link is between two sites, here are {len(names)}", 'write ["alpha", "beta"]')
    if names[0] == names[1]:
        raise FieldError(f'both ends are "{names[0]}"; messages within a site need no link', "name two sites")
    return names[0], names[1]


def is_site_name(text: str) -> bool:
    """Whether a site can have this name: it becomes part of file names and addresses."""
    return _NAME.fullmatch(text) is not None


def _quoted(words: tuple[str, ...]) -> list[str]:
    return [f'"{word}"' for word in words]


#: The keys of a table `[site.NAME]`.
SITE_FIELDS: Mapping[str, Field] = {
    "like": Field("like", name),
    "ssh": Field("ssh", destination),
    "transport": Field("transport", one_of(TRANSPORTS)),
    "scheduler": Field("scheduler", one_of(SCHEDULERS)),
    "dialect": Field("dialect", one_of(DIALECTS)),
    "partition": Field("partition", text("batch")),
    "account": Field("account", text("abc123")),
    "qos": Field("qos", text("normal")),
    "reservation": Field("reservation", text("course")),
    "can_reserve": Field("can_reserve", flag),
    "walltime": Field("walltime_s", quantity(time_s, "2 hr")),
    "options": Field("options", texts("--constraint=fast")),
    "modules": Field("modules", texts("openmpi")),
    "setup": Field("setup", texts("source /opt/x/env.sh")),
    "env": Field("env", environment),
    "nodes": Field("nodes", count(1)),
    "cores": Field("cores", count(1)),
    "memory": Field("memory_bytes", quantity(size_bytes, "16 GiB")),
    "gpus": Field("gpus", count(0)),
    "speed": Field("speed", number(0, "1.0", exclusive=True)),
    "mpi": Field("mpi", launcher),
    "container": Field("container", container),
    "listen": Field("listen", listening),
    "work": Field("work", text("~/xmml")),
    "python": Field("python", text("~/xmml/bin/python")),
    "software": Field("software", texts("openfoam")),
    "queue_wait": Field("queue_wait_s", quantity(time_s, "10 min", zero=True)),
    "cost": Field("cost", number(0, "0.02")),
}

#: The keys of a table `[site.NAME.relay]`.
RELAY_FIELDS: Mapping[str, Field] = {
    "host": Field("host", text("login")),
    "port": Field("port", port),
    "listen": Field("listen", host_port),
    "through_ssh": Field("through_ssh", flag),
}

#: The keys of a table `[[link]]`.
LINK_FIELDS: Mapping[str, Field] = {
    "between": Field("between", pair),
    "latency": Field("latency_s", quantity(time_s, "10 ms", zero=True)),
    "bandwidth": Field("bandwidth", quantity(rate, "1 Gbit/s")),
    "streams": Field("streams", streams),
    "methods": Field("methods", methods),
    "encrypt": Field("encrypt", flag),
}

#: What people write for a key that is called otherwise here.
SYNONYMS: Mapping[str, str] = {
    "host": "ssh",
    "hostname": "ssh",
    "login": "ssh",
    "queue": "partition",
    "project": "account",
    "time": "walltime",
    "time_limit": "walltime",
    "cores_per_node": "cores",
    "cpus": "cores",
    "ram": "memory",
    "mem": "memory",
    "environment": "env",
    "module": "modules",
    "workdir": "work",
    "work_dir": "work",
    "price": "cost",
    "wait": "queue_wait",
    "system": "scheduler",
    "batch": "scheduler",
    "ends": "between",
    "sites": "between",
    "delay": "latency",
    "rtt": "latency",
    "rate": "bandwidth",
    "speed": "bandwidth",
    "method": "methods",
    "tls": "encrypt",
}
