"""What a yMMSL file says, in either version, as values with the places they stand at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from xmml.late_dataclass import dataclass
from xmml.problems import Problem

SettingValue = str | bool | int | float | list[int | float] | list[list[int | float]]

#: Of a longer line so much is quoted, beginning so far before the place.
_LONGEST, _BEFORE = 160, 40


def _shortened(text: str) -> str:
    """Return the text without its middle if a file put something endless into it."""
    return text if len(text) <= 600 else f"{text[:400]} ... {text[-150:]}"


@dataclass(frozen=True)
class Place:
    """A place in the file; `problem` says what is wrong there."""

    file: str
    line: int
    column: int
    length: int
    quote: str

    def problem(self, message: str, help: str = "", code: str = "Y02") -> Problem:
        """Return an error at this place."""
        from xmml.positions import Mark, Position
        from xmml.problems import Severity

        position = Position(self.file, self.line, self.column)
        mark = Mark(position, self.length)
        start = max(0, self.column - 1 - _BEFORE) if len(self.quote) > _LONGEST else 0
        return Problem(
            severity=Severity.ERROR,
            code=code,
            message=_shortened(message),
            position=position,
            quote=self.quote[start : start + _LONGEST],
            mark=mark,
            help=_shortened(help),
            quote_column=start + 1,
        )


@dataclass(frozen=True)
class Ports:
    """Operators (`f_init`, `o_i`, `s`, `o_f`) by port, and the ports on timelines of their own."""

    operators: Mapping[str, str] = field(default_factory=dict)
    on_timelines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Component:
    """A component of a model; `ports` is `None` if the file does not say."""

    name: str
    place: Place
    ports: Ports | None
    description: str
    implementation: str | None
    optional: bool
    multiplicity: tuple[int, ...]


@dataclass(frozen=True)
class Conduit:
    """A conduit between `COMPONENT.PORT`s, or ports of the model itself (no dot)."""

    sender: str
    receiver: str
    filters: tuple[str, ...]
    place: Place


@dataclass(frozen=True)
class YmmslModel:
    """A model; a component of another one may be implemented by it."""

    name: str
    place: Place
    description: str
    ports: Ports
    components: Mapping[str, Component]
    conduits: tuple[Conduit, ...]
    has_matching_timelines: bool = False


@dataclass(frozen=True)
class Program:
    """A program (version 0.1: an implementation)."""

    name: str
    place: Place
    description: str = ""
    ports: Ports | None = None
    settings: frozenset[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    execution_model: str = "direct"
    executable: str | None = None
    args: tuple[str, ...] = ()
    script: str | None = None
    can_share_resources: bool = True
    keeps_state: str = "necessary"
    surroundings: tuple[str, ...] = ()  # which of base_env, modules and virtual_env it gives


@dataclass(frozen=True)
class Resources:
    """What each instance of a component needs."""

    threads: int | None = None
    mpi_processes: int | None = None
    threads_per_mpi_process: int = 1


@dataclass(frozen=True)
class YmmslFile:
    """A whole file.

    Attributes:
        custom_implementations: by path of components, from the name of the model on; `None` takes a component away.
        left_out: sections that were not looked into.
    """

    version: str
    description: str
    models: Mapping[str, YmmslModel]
    programs: Mapping[str, Program]
    settings: Mapping[str, SettingValue]
    resources: Mapping[str, Resources]
    custom_implementations: Mapping[str, str | None]
    left_out: tuple[str, ...]
    place: Place
