"""What every batch system can do for us, as pure functions: texts to run at a site, and what their answers mean.

No function here runs anything. A transport carries the commands to the site's login node and brings each result back.

The truth about a job is the result file that its script writes (`job_script`); the queue is asked for liveness only,
because it forgets, may be down, and does not know which of our steps failed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from xmml.late_dataclass import dataclass
from xmml_sites.ssh.command_result import CommandResult

if TYPE_CHECKING:
    from xmml_sites.batch.queue_limits import QueueLimits


class JobState(Enum):
    """How far a job has come, as its queue tells."""

    WAITING = "waiting"
    HELD = "held"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WALLTIME_EXPIRED = "out of time"
    NODE_FAILED = "node failed"
    GONE = "gone"  # the queue does not know it (any more)

    @property
    def is_over(self) -> bool:
        """Whether the job will not run any more."""
        return self not in (JobState.WAITING, JobState.HELD, JobState.RUNNING, JobState.ENDING)


@dataclass(frozen=True)
class JobStatus:
    """What a queue says of one job.

    Attributes:
        reason: why it waits or failed, in the queue's words.
        can_never_run: the queue says that it will not start as it was asked for, however long it waits.
        may_never_run: it waits because of a limit, which it may exceed alone or together with others: the limits of the
            queue tell (`QueueLimits`).
        waits_for_nodes: it waits for nodes, which are in use or do not work: the limits of the queue tell.
        starts_in_s: when the queue expects it to start, in seconds from the moment in which it said so; so that neither
            the site's clock nor its time zone matters.
        nodes: where it runs, as the queue writes it.
        exit_status: of the script, where the queue knows it.
        ends_as: of a job that is ending, how it will be called when it is over, where the queue knows it.
    """

    state: JobState
    reason: str = ""
    can_never_run: bool = False
    may_never_run: bool = False
    waits_for_nodes: bool = False
    starts_in_s: float | None = None
    nodes: str = ""
    exit_status: int | None = None
    ends_as: JobState | None = None


@dataclass(frozen=True)
class NodeStep:
    """A command on one node of a job.

    Attributes:
        node: which of the job's nodes, counted from 0.
        command: shell text; it runs in the folder of the job, with its environment.
        cores: how many cores are its alone; 0: it uses those of others.
        gpus: how many GPUs it has.
        on_failure: shell text for the first node if it ends with another status than 0, which is `$xmml_status`.
    """

    node: int
    command: str
    cores: int = 0
    gpus: int = 0
    on_failure: str = ""


@dataclass(frozen=True)
class JobScript:
    """A job before it is submitted.

    Attributes:
        name: shown in the queue.
        folder: at the site, absolute; there lie the script's output, `started` and `result`. It must exist.
        command: what to do, shell text; it runs on the first node, in `folder`.
        steps: what to do instead on each of several nodes; `XMML_NODES` names all nodes of the job there. The job ends
            when all have ended, with the first status that is not 0.
        nodes, cores, memory, gpus: of each node; memory in bytes, 0 means what the site gives by default.
        task_cores: of the cores of a node, how many each rank of an MPI program has.
        hosts: the names of its nodes, if they are known before it begins.
        starts_on_first_node: the script runs on the first of them.
        component: in a heterogeneous job that runs already, the number of the component in which it runs.
        owner: a process of the machine on which the script runs, with whose end it ends, not by its walltime.
        before_end: shell text that is run when the owner has ended, before the job is told to end.
        walltime_s: the job is ended after this time.
        partition: of PBS: the queue.
        modules: loaded before the command; one that cannot be loaded ends the job and is named in the result.
        setup: lines of shell text after the modules.
        env: set after that; not for secrets: others can see them.
        umask: of the command; the script's own files are for the owner alone.
        starts_after_s: not to start sooner than so many seconds after the submission.
        is_held: it waits until somebody releases it.
        options: further options, as the batch system's own directives spell them.
    """

    name: str
    folder: str
    command: str = ""
    steps: tuple[NodeStep, ...] = ()
    nodes: int = 1
    cores: int = 1
    task_cores: int = 1
    hosts: tuple[str, ...] = ()
    starts_on_first_node: bool = True
    component: str = ""
    owner: int = 0
    before_end: str = ":"
    memory: int = 0
    gpus: int = 0
    walltime_s: float = 3600.0
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o077
    starts_after_s: float = 0.0
    is_held: bool = False
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.folder.startswith("/"):
            raise ValueError(f"the folder of a job is an absolute path, not {self.folder!r}")
        words = (self.folder, self.name, self.partition, self.account, self.qos, self.reservation, *self.options)
        if any("\n" in word for word in words):
            raise ValueError("a line break in the name, the folder or an option of a job")


@dataclass(frozen=True)
class ReservationRequest:
    """Nodes to be kept free from a moment on.

    Attributes:
        user: whom it is for.
        starts_at: by the clock of the site, in seconds since 1970, not of any time zone.
        idle_s: it may go when nobody has used it for so long after it began; batch systems that cannot tell keep it.
    """

    name: str
    user: str
    nodes: int
    cores: int
    starts_at: int
    duration_s: float
    partition: str = ""
    idle_s: float | None = None


class ReservationState(Enum):
    """How far a reservation has come."""

    ASKED = "asked for"
    CONFIRMED = "confirmed"
    ACTIVE = "active"
    GONE = "gone"


class JobRejected(Exception):
    """The queue did not take the job, and will not take it again as it is."""


class ReservationRefused(Exception):
    """The site does not reserve as it was asked to."""


class SchedulerUnavailable(Exception):
    """The batch system did not answer sensibly. What became of the request is not known; asking again may help."""


class NotSupported(Exception):
    """This batch system cannot do that."""


class Scheduler(Protocol):
    """A batch system. All commands are shell text for the login node, all results values."""

    name: str
    can_reserve: bool
    has_heterogeneous_jobs: bool

    def version_command(self) -> str:
        """Return the command that prints which batch system answers."""

    def parse_version(self, answer: CommandResult) -> str:
        """Return its name and version.

        Raises:
            SchedulerUnavailable: there is none.
        """

    def render(self, job: JobScript) -> str:
        """Return the script of a job."""

    def asking_for(self, job: JobScript) -> list[str]:
        """Return the lines of a script that request the nodes of a job."""

    def with_steps_started(self, job: JobScript) -> JobScript:
        """Return a job with a command that starts its steps on their nodes; one without steps as it is.

        Raises:
            NotSupported: there are no steps without a batch system.
        """

    def render_together(self, jobs: Sequence[JobScript]) -> str:
        """Return one script for jobs that start at the same moment, each on its own nodes.

        Raises:
            NotSupported: the batch system cannot.
        """

    def submit_command(self, path: str) -> str:
        """Return the command that submits the script at an absolute path."""

    def parse_submit(self, answer: CommandResult) -> str:
        """Return the id of the job.

        Raises:
            JobRejected: with the queue's reason.
            SchedulerUnavailable: the job may have been submitted or not; its name tells.
        """

    def status_command(self, ids: Iterable[str]) -> str:
        """Return the command that queries any number of jobs together."""

    def parse_status(self, answer: CommandResult, ids: Iterable[str]) -> dict[str, JobStatus]:
        """Return the status of every job of `ids`; one that the queue does not know is `GONE`.

        Raises:
            SchedulerUnavailable: the queue gave no answer, which says nothing about the jobs.
        """

    def cancel_command(self, ids: Iterable[str]) -> str:
        """Return the command that ends jobs, pending or running; jobs that are over or unknown are no error."""

    def release_command(self, ids: Iterable[str]) -> str:
        """Return the command that releases held jobs."""

    def estimate_command(self, path: str) -> str:
        """Return the command that queries when the job of a script would start if it were submitted now; it submits
        nothing."""

    def parse_estimate(self, answer: CommandResult) -> float | None:
        """Return in how many seconds it would start; `None` when the queue does not say.

        Raises:
            JobRejected: the queue would not take it.
        """

    def reserve_command(self, wish: ReservationRequest) -> str:
        """Return the command that makes a reservation."""

    def parse_reserve(self, answer: CommandResult, wish: ReservationRequest) -> str:
        """Return the id of the reservation.

        Raises:
            ReservationRefused: with the reason.
        """

    def reservation_command(self, id: str) -> str:
        """Return the command that queries the state of a reservation."""

    def parse_reservation(self, answer: CommandResult) -> ReservationState:
        """Return the state of a reservation."""

    def unreserve_command(self, id: str) -> str:
        """Return the command that removes a reservation."""

    def limits_command(self) -> str:
        """Return the command that queries the limits of the partitions, and of the accounts and QOSs of this user where
        there are any."""

    def parse_limits(self, answer: CommandResult) -> QueueLimits:
        """Return the limits; none where the queue did not say."""

    def free_command(self, partition: str) -> str:
        """Return the command that queries how many cores of a partition are free now."""

    def parse_free(self, answer: CommandResult) -> tuple[int, int] | None:
        """Return free cores and all cores; `None` when that is not known."""


#: Printed before the answer of a queue, so that its local times can be understood.
CLOCK = "date '+%s %Y-%m-%dT%H:%M:%S'"


def quoted(words: Iterable[str]) -> str:
    """Return words for a shell."""
    return " ".join(shlex.quote(word) for word in words)


def hours_minutes_seconds(seconds: float) -> str:
    """Return a time as batch systems read it, rounded up to whole seconds."""
    whole = max(1, -int(-seconds // 1))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
