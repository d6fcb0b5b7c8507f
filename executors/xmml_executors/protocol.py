"""What a run tells supervisors and agents, and what they report: one JSON object a line.

Orders go from the run to the supervisor of a machine or to the agent of a node; reports come back. An object says in
`do`, or in `is`, what it is; its other members are the fields of the class that has this word. Lines are read once,
where they come in. Whatever is not an order or a report as it stands here is an error that names its source.

Supervisors and agents (the program `mto`, the Rust crate `native/site`) run where nothing of this package is installed,
so they read and write the same lines by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field
from enum import IntEnum
from typing import Any, ClassVar, get_args

from xmml.late_dataclass import dataclass
from xmml_executors.typed_json import ProtocolError, defaults, parsed, read_tagged_object

# --- orders ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start:
    """Start a process. An agent makes its working folder first.

    Attributes:
        name: of its instance, its build, or of the process that instances share.
        env: what is added to the environment.
        terminal: a device that it gets instead of captured streams.
        hosted: the instances that it hosts and reports about.
        fork: the fork server may start it.
        cpus: that the process is bound to; none: it may use those of the supervisor.
        files: texts of files that must be there before, by their paths; for agents.
        stage_in: patterns of the model's files that are copied into the working folder; for agents.
        cores: places in the list of the CPUs that the agent may use, if these are `of_cores`; the process is bound to
            them.
        gpus: places in the list of the agent's GPUs.
    """

    word: ClassVar[str] = "start"
    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    folder: str
    stdout: str
    stderr: str
    terminal: str | None
    hosted: Sequence[str]
    fork: bool
    cpus: Sequence[int] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    stage_in: Sequence[str] = ()
    cores: Sequence[int] | None = None
    of_cores: int | None = None
    gpus: Sequence[int] | None = None


@dataclass(frozen=True)
class Prepare:
    """Make the working folder of an instance that a shared process hosts; for agents."""

    word: ClassVar[str] = "prepare"
    folder: str
    stage_in: Sequence[str]


@dataclass(frozen=True)
class Signal:
    """Send a signal to the process group of an instance."""

    word: ClassVar[str] = "signal"
    name: str
    signal: int


@dataclass(frozen=True)
class Watch:
    """Report when this process, below that of the instance, has vanished: it is the one that has joined the run."""

    word: ClassVar[str] = "watch"
    name: str
    pid: int


@dataclass(frozen=True)
class Remove:
    """Remove a file, or a folder, when everything has ended."""

    word: ClassVar[str] = "remove"
    path: str


@dataclass(frozen=True)
class Quit:
    """End what is left, then the supervisor."""

    word: ClassVar[str] = "quit"


@dataclass(frozen=True)
class Hold:
    """Wait for so many more seconds, as long as the launcher lives; for agents."""

    word: ClassVar[str] = "hold"
    s: float


@dataclass(frozen=True)
class Go:
    """Start the supervisor; for agents."""

    word: ClassVar[str] = "go"


@dataclass(frozen=True)
class Abort:
    """End without having started anything; for agents."""

    word: ClassVar[str] = "abort"


Order = Start | Prepare | Signal | Watch | Remove | Quit | Hold | Go | Abort

# --- reports of supervisors -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Started:
    """A process runs, or an instance in a process that others share, whose name is `process`."""

    word: ClassVar[str] = "started"
    name: str
    pid: int
    process: str | None


@dataclass(frozen=True)
class Refused:
    """A process was started, but its program could not be executed.

    Attributes:
        errno: the name of the error, such as `ENOENT`; empty if it has none.
    """

    word: ClassVar[str] = "refused"
    name: str
    error: str
    errno: str


@dataclass(frozen=True)
class Output:
    """A process has written a line to its stream `stdout` or `stderr`."""

    word: ClassVar[str] = "output"
    name: str
    stream: str
    text: str


@dataclass(frozen=True)
class Vanished:
    """The process that was to be watched is gone; that of the instance may not be."""

    word: ClassVar[str] = "vanished"
    name: str


@dataclass(frozen=True)
class Unwritable:
    """A file cannot be written.

    Attributes:
        number: of the operating system's error; `None`: not known.
    """

    word: ClassVar[str] = "unwritable"
    name: str
    file: str
    error: str
    number: int | None = None


@dataclass(frozen=True)
class Ended:
    """A process has ended, or an instance in a shared one.

    Attributes:
        status, signal: how: one of them is `None`.
        process: the name of the process that an instance shares; `None`: it has its own.
        with_process: an instance ended because the process that it shares did.
        no_memory: for want of which memory it was killed, or another process meanwhile; empty: it was not.
    """

    word: ClassVar[str] = "ended"
    name: str
    status: int | None
    signal: int | None
    cpu_s: float
    memory_bytes: int
    process: str | None
    with_process: bool
    no_memory: str = ""


# --- reports of agents ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ready:
    """The agent of a node waits for a word.

    Attributes:
        host, port: where the login node can connect to it.
        job: the number that the queue has given.
        python, path: its interpreter, and PATH in its environment.
        nodes: the names of the job's nodes.
        part: its number in a heterogeneous job; empty: it is none.
    """

    word: ClassVar[str] = "ready"
    host: str
    port: int
    pid: int
    job: str
    python: str
    path: str
    nodes: Sequence[str]
    part: str


@dataclass(frozen=True)
class Bound:
    """A process that is about to be started is bound to CPUs of its node, or why it is not.

    Attributes:
        cpus: their numbers; none: it is not bound.
        reason: why it is not; empty: it is.
    """

    word: ClassVar[str] = "bound"
    name: str
    cpus: Sequence[int]
    reason: str


@dataclass(frozen=True)
class Killed:
    """The batch system, or somebody, ends the job."""

    word: ClassVar[str] = "killed"


@dataclass(frozen=True)
class TimedOut:
    """Nobody said anything to an agent until its patience was over."""

    word: ClassVar[str] = "given up"


@dataclass(frozen=True)
class LeaseExpired:
    """The launcher has not been heard of for too long."""

    word: ClassVar[str] = "lease over"


@dataclass(frozen=True)
class Over:
    """Everything has ended on a node."""

    word: ClassVar[str] = "over"


@dataclass(frozen=True)
class StepFailed:
    """What starts the agent of a node has failed, or the agent has, with this exit status."""

    word: ClassVar[str] = "failed"
    status: int


SupervisorReport = Started | Refused | Output | Vanished | Unwritable | Ended
ProcessReport = SupervisorReport | Bound
AgentReport = ProcessReport | Ready | Killed | TimedOut | LeaseExpired | Over | StepFailed


class AgentStatus(IntEnum):
    """Exit status of an agent that has ended otherwise than with its supervisor, and has said why.

    Attributes:
        UNWRITABLE: it cannot write in the folder of the run.
    """

    UNWRITABLE = 74
    ABORTED = 75
    TIMED_OUT = 76
    LEASE_EXPIRED = 77
    KILLED = 143


#: Ports are below.
PORTS_END = 1 << 16

# --- reading and writing --------------------------------------------------------------------------------------------


def order_object(order: Order) -> dict[str, Any]:
    """Return an order as the JSON object that says it."""
    return {"do": order.word, **details(order)}


def details(what: object) -> dict[str, Any]:
    """Return the fields of an order or a report that say something: those that differ from their defaults."""
    found = {}
    kind: type = type(what)
    for each, default in defaults(kind):
        value = getattr(what, each)
        if default is MISSING or value != default:
            found[each] = value
    return found


def read_supervisor_report(line: bytes, source: str) -> SupervisorReport:
    """Return the report of a supervisor that a line says.

    Args:
        source: who has written it, for errors.

    Raises:
        ProtocolError: it says none.
    """
    report: SupervisorReport = read_tagged_object(_OF_SUPERVISORS, parsed(line, source), source)
    return report


def agent_report(what: object, source: str) -> AgentReport:
    """Return the report of an agent, or of its supervisor, that a JSON value says.

    Args:
        source: who has written it, for errors.

    Raises:
        ProtocolError: it says none.
    """
    report: AgentReport = read_tagged_object(_OF_AGENTS, what, source)
    if isinstance(report, Ready) and not 0 < report.port < PORTS_END:
        raise ProtocolError(source, "there is no such port", what)
    return report


_OF_SUPERVISORS: dict[str, type] = {each.word: each for each in get_args(SupervisorReport)}
_OF_AGENTS: dict[str, type] = {each.word: each for each in get_args(AgentReport)}
