"""The compiled half of `xmml_native`."""

import builtins
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, final, overload

from numpy.typing import DTypeLike, NDArray
from typing_extensions import Buffer, disjoint_base

if TYPE_CHECKING:
    from xmml_native.handle import Handle
    from xmml_native.mpi import Block

_Param = TypeVar("_Param", str, float, int, bool)

COPY_VERSION: int
__version__: str

def parse_json(text: str) -> Any:
    """Return the value of a JSON text: `json.loads` without the milliseconds that importing `json` takes."""

def relay_key(secret: bytes) -> str:
    """Return the relay key of the run with this secret: what relays are given instead of the secret."""

def die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent dies.

    The parent must be the process `parent`; if it is not any more, this process ends at once.
    """

def enter_folder_alone(folder: str) -> None:
    """Make `folder` the working folder of the calling thread, and of the threads and processes that it starts.

    Other threads keep theirs.
    """

def threads_can_have_folders() -> bool:
    """Return whether threads may have working folders of their own here; some containers forbid it."""

def descendants(root: int) -> list[int]:
    """Return the processes below one, without those that have ended and that nobody has waited for."""

def start_of(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty if there is none, or it is only waited for.

    Together with its number this names a process for good: numbers are used again.
    """

@final
class MemoryGroup:
    """The control group of memory that this process and what it starts are in, version 1 or 2.

    Args:
        mounted: where control groups are mounted.
        listed: the file that says in which groups this process is.
    """

    def __new__(cls, mounted: str = ..., listed: str = ...) -> MemoryGroup:
        """
        Args:
            mounted: where control groups are mounted.
            listed: the file that says in which groups this process is.
        """

    def ran_out(self) -> str:
        """Return why a process of the group was killed, once for each that was; empty if none was since.

        To be asked for a process that was killed: the group knows how many were, not which.
        """

    def ran_out_beside(self) -> str:
        """Return the same for a process that failed otherwise, once.

        A child of it may have been killed, or something else. `ran_out` still tells of the one that was.
        """

    def limit(self) -> int | None:
        """Return the least limit [bytes] that holds for the group; `None` if there is none."""

@final
class Message:
    """A message as a submodel sends and receives it.

    `data` is converted when it is first read: None, bool, int, float, complex, str, bytes, a numpy array over the
    memory in which it arrived, or lists and dicts of these. A message that is only passed on is never converted.
    """

    data: Any
    timestamp: float
    next_timestamp: float | None
    def __new__(cls, data: Any, timestamp: float = 0.0, next_timestamp: float | None = None) -> Self: ...

def serialize(value: Any) -> Payload:
    """Return what a message can carry as bytes: first the length of what describes it (8 bytes, little-endian).

    Raises:
        DataTypeError: a value that no message can carry.
    """

def deserialize(bytes: Any) -> Any:
    """Return the value that `serialize` has made bytes of. Arrays are shown where they lie, for reading.

    Raises:
        ValueError: they are no such bytes.
    """

@final
class Object:
    """An object of a pool, as a reader takes it: a payload with typed attributes.

    `object["step"]` is the value of an attribute: bool, int, float, str, bytes, a list of numbers, or a
    `datetime.datetime` in UTC. Every object has the attributes `sys.t`, `sys.seq`, `sys.instance`, `sys.port`,
    `sys.size`, `sys.type`, `sys.shape` and others.
    """

    def __new__(cls, data: Any = None, /, **attributes: Any) -> Self:
        """Return an object for the in port of an instance without a run (`Instance.alone`)."""
    @property
    def data(self) -> Any:
        """The payload: None, bool, int, float, complex, str, bytes, a numpy array, or lists and dicts of these."""
    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes that it has, by name: those of its datatype, then `sys.*`."""
    def __getitem__(self, name: str, /) -> Any: ...
    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or `default` if the object does not have it.

        Raises:
            KeyError: its datatype has no such attribute.
        """
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: str, /) -> bool: ...

@final
class Group:
    """Objects that become visible together: what `Instance.group` returns.

    >>> with me.group("fields", step=3) as record:
    ...     record.put(temperature, param="t")
    ...     record.put(pressure, param="p")

    When the block ends, each reader gets those that it chooses, all at once. An exception in the block forgets them.
    """
    def __enter__(self) -> Self: ...
    def put(self, data: Any = None, /, **attributes: Any) -> int:
        """Add an object to the group; return how many readers choose it.

        Its attributes are those of the group, unless others are given. It waits for nobody; `data` may be changed when
        it returns. `Instance.put` explains the errors.
        """
    def put_block(self, data: Any, shape: Sequence[int] | None, /, **attributes: Any) -> int:
        """Add an object of which `data` is the block of this rank, as `Instance.put_block` explains."""
    def __exit__(self, exception: Any, value: Any, traceback: Any, /) -> None: ...

@final
class Path:
    """One end of a wide-area path, which `xmml.path` explains.

    Time-outs are in seconds; None waits without end.
    """

    @staticmethod
    def dial(
        address: str,
        peer: str,
        *,
        secret: bytes,
        run: str,
        name: str,
        credentials: str | None = None,
        trusted: Sequence[str] = ...,
        timeout: float | None = 30.0,
        settings: Mapping[str, Any] | None = None,
    ) -> Path:
        """Open a path to the program called `peer`; `xmml.path.dial` explains the arguments.

        Raises:
            TimeoutError: the path was not open within `timeout` seconds.
        """
    @property
    def peer(self) -> str:
        """The name of the other end."""
    @property
    def state(self) -> str:
        """One of "opening", "open", "broken", "closed" and "failed"."""
    def send(self, data: Buffer, lane: str = "bulk", timeout: float | None = None) -> None:
        """Send a message from any object with contiguous memory, which may change when this returns.

        Waits while too much is queued. `bytes` never change, and are sent without a copy.

        Raises:
            TimeoutError: there was no room for the message within `timeout` seconds.
        """
    def post(self, data: Buffer, lane: str = "bulk") -> int:
        """Send without waiting and without a copy; return a ticket for `arrived`.

        The object must not change until the ticket has arrived.
        """
    def arrived(self, ticket: int, timeout: float | None = 0.0) -> bool:
        """Return whether the other end has what was posted, waiting up to `timeout` seconds for it.

        If relays pass the path on, the other end is the last one. A path that has failed raises the reason, unless the
        message had arrived.
        """
    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the other end has everything; return False if it has not within `timeout` seconds.

        If relays pass the path on, the other end is the last one.
        """
    def receive(self, lane: str = "bulk", timeout: float | None = None) -> memoryview | None:
        """Return the next message, of whatever size, as a memoryview; None once the other end has finished.

        Raises:
            TimeoutError: no message came within `timeout` seconds.
        """
    def wait_next(self, lane: str = "bulk", timeout: float | None = None) -> int | None:
        """Wait for the next message without taking it; return its length, or None once the other end has finished.

        Raises:
            TimeoutError: no message came within `timeout` seconds.
        """
    def take(self, lane: str = "bulk") -> memoryview | None:
        """Return the next message if it has come, else None."""
    def has_ended(self, lane: str = "bulk") -> bool:
        """Return whether the other end has finished and everything was received."""
    def send_receive(self, data: Buffer, lane: str = "bulk", timeout: float | None = None) -> memoryview | None:
        """Send one message and return the next one received; both travel at once.

        `data` may change when this returns. Returns None once the other end has finished.
        """
    def barrier(self, timeout: float | None = None) -> bool:
        """Wait until both ends have called this; return False if the other end has not within `timeout` seconds."""
    def relay(self, other: Path) -> tuple[int, int]:
        """Pass everything on between this path and another until both have ended.

        Returns how many messages went from this path to the other, and how many came back.
        """
    def set(self, **settings: Any) -> None:
        """Change the settings that are named; the streams in use go on."""
    def stats(self) -> dict[str, Any]:
        """Return figures of the path; docs/wide-area.md explains the keys."""
    def fileno(self) -> int:
        """Return a descriptor for event loops: readable when `drive` has something to do.

        A thread of the library may be faster, and leave nothing to do.
        """
    def drive(self) -> None:
        """Do what can be done now; never wait."""
    def finish(self) -> None:
        """Declare that this end sends nothing more; messages still come."""
    def close(self, timeout: float | None = 30.0) -> bool:
        """End the path in order; return False if the other end has not ended it within `timeout` seconds.

        Takes no messages: receive first what the other end has sent.
        """
    def __enter__(self) -> Path: ...
    def __exit__(self, kind: object = None, *_rest: object) -> None: ...

@final
class PathListener:
    """A listener that accepts paths."""

    def __new__(
        cls,
        address: str,
        *,
        secret: bytes,
        run: str,
        name: str,
        credentials: str | None = None,
        trusted: Sequence[str] = ...,
        settings: Mapping[str, Any] | None = None,
    ) -> Self: ...
    @property
    def address(self) -> str:
        """Where it listens, "host:port"."""
    @property
    def refusals(self) -> tuple[int, str | None]:
        """How many connections were refused, and why the last one was."""
    def fileno(self) -> int:
        """Return a descriptor that is readable when somebody may have dialled."""
    def accept(self, timeout: float | None = None) -> Path:
        """Return the next path.

        Raises:
            TimeoutError: none was opened within `timeout` seconds.
        """

def cycle_paths(
    to: Path, source: Path, data: Buffer, lane: str = "bulk", timeout: float | None = None
) -> memoryview | None:
    """Send on one path and receive from another; return None once that one has ended."""

def scatter_to_paths(
    paths: Sequence[Path], parts: Sequence[Buffer], lane: str = "bulk", timeout: float | None = None
) -> None:
    """Send each path its part, on all of them at once."""

def gather_from_paths(paths: Sequence[Path], lane: str = "bulk", timeout: float | None = None) -> list[memoryview]:
    """Receive one message of each path, in their order; none is taken before all have come."""

def leave_paths() -> None:
    """Leave all paths, before the interpreter ends.

    A thread of a path that needs the interpreter to release the memory of a message would never get it, and whoever
    drops the path would wait for that thread.
    """

def make_path_credentials(name: str, seconds: float) -> tuple[str, str]:
    """Return a new key and certificate in PEM, valid for `seconds`, and the fingerprint for the other end."""

@final
class Payload:
    """The memory of a received array; the `base` of the numpy array that shows it."""

    def __len__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Port:
    """A port that the model declares."""

    @property
    def name(self) -> str:
        """Id in the model."""
    @property
    def direction(self) -> str:
        """Either "in" or "out"."""
    @property
    def operator(self) -> str | None:
        """One of "finit", "Oi", "S", "B" and "Of"; None on mappers and terminals."""
    @property
    def connected(self) -> bool:
        """Whether it is coupled."""

@final
class Scale:
    """How finely an instance resolves one dimension and how much of it it covers, in base units (s, m, ...)."""

    @property
    def name(self) -> str:
        """Id in the model."""
    @property
    def kind(self) -> str:
        """One of "time", "space" and "other"."""
    @property
    def delta(self) -> float:
        """The step; 0 if the model gives none."""
    @property
    def total(self) -> float:
        """The extent; 0 if the model gives none."""
    @property
    def steps(self) -> int:
        """How many steps make the extent; 0 if the model lacks one of the two."""

@disjoint_base
class Instance:
    """An instance of the model, joined to its run (or alone)."""

    def __new__(
        cls,
        spec: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Sequence[Message]] | None = None,
        *,
        hosted_as: str | None = None,
        team: Any = None,
    ) -> Self: ...
    @property
    def rank(self) -> int:
        """Which rank of an MPI program this is, from 0; 0 if it has not joined with others."""
    @property
    def ranks(self) -> int:
        """How many ranks have joined together; 1 if it has not joined with others."""
    def _block(self, port: str, shape: Sequence[int] | None = None) -> tuple[list[int], list[int], list[int]]:
        """Return the part of the array on `port` that this rank holds: its start, its extent, and the whole extents."""
    def _prefer_column_major(self, yes: bool) -> None:
        """Choose whether received parts of arrays are put together with the first index fastest."""
    @property
    def spec(self) -> dict[str, Any]:
        """What the model says about this instance, as a dictionary."""
    @property
    def params(self) -> dict[str, str]:
        """Every parameter, as text."""
    @overload
    def param(
        self, name: str, type: builtins.type[_Param], unit: str | None = None, default: _Param | EllipsisType = ...
    ) -> _Param: ...
    @overload
    def param(
        self, name: str, type: builtins.type[_Param], unit: str | None = None, *, default: None
    ) -> _Param | None: ...
    @overload
    def param(self, name: str, *, default: None) -> str | None: ...
    @overload
    def param(self, name: str, *, default: str | EllipsisType = ...) -> str:
        """Return the parameter `name`, converted to `type` (str, float, int or bool), in `unit` if one is given.

        Without a unit, a value that has one comes in base units (s, m, byte, kg, ...). `default` is returned as it is
        when the model has no such parameter.
        """
    @property
    def name(self) -> str:
        """Name in the model; copies are called `c[0]`, `c[1]`, ..."""
    @property
    def index(self) -> int:
        """Which copy this is, from 0."""
    @property
    def count(self) -> int:
        """How many copies there are."""
    @property
    def delta(self) -> float:
        """Time step in seconds; 0 if the model gives none."""
    @property
    def total(self) -> float:
        """Total time of one run in seconds; 0 if the model gives none."""
    def scale(self, name: str) -> Scale:
        """Return the scale `name` of the model, in base units; figures that the model does not give are 0."""
    @property
    def ports(self) -> dict[str, Port]:
        """The ports that the model declares, by name, in its order."""
    @property
    def time(self) -> float:
        """Model time in seconds."""
    @property
    def origin(self) -> float:
        """Model time at which this pass began, in seconds."""
    @property
    def outputs(self) -> dict[str, list[Message]]:
        """What was sent so far, by port (only of an instance that is alone)."""
    def reuse(self) -> bool:
        """Wait for the next pass and return True, or return False when no more will come.

        An instance without coupled f_init ports makes one pass. Otherwise a pass begins when each of these ports has a
        message, which `receive` then returns, and no more come when their senders have ended.
        """
    def steps(self) -> Iterator[float]:
        """Iterate over the model times of this pass's iterations, in seconds."""
    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = ..., order: Literal["C", "F"] = "C") -> NDArray[Any]:
        """Return an array to be filled and then sent: receivers on this host get its memory without a copy.

        Its contents are unspecified. After a send it belongs to the receiver, and is read-only here; ask for another
        one then: memory that receivers are done with is used again.
        """
    def out(self, port: str) -> OutPort:
        """Look the out port `port` up once: a name that is misspelt, or that of an in port, is a `PortError` here.

        The port that is returned has the calls that an out port is for, without its name: `port.send(data)`.
        """
    def in_(self, port: str) -> InPort:
        """Look the in port `port` up once, as `out` does with an out port."""
    def send(
        self,
        port: str,
        data: Any = None,
        timestamp: float | None = None,
        next_timestamp: float | EllipsisType | None = ...,
        *,
        to: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> bool:
        """Send `data` on `port`; return False if the receiver has left.

        The time stamps follow from the loop unless given. A `Message` as data is passed on with its own time stamps.
        `to` addresses one copy of a multiplied receiver; without it every copy gets the message. On a parallel port
        each rank sends its block; `shape` are the extents of the whole array if the model does not give them.
        """
    def put(self, port: str, data: Any = None, /, **attributes: Any) -> int:
        """Offer an object on `port`, whose couplings are pools; return how many readers choose it and have not left.

        Attributes are given by name and checked against the datatype of the port; one that is None is left out. It may
        be called at any time, any number of times. It waits while a reader that chooses the object holds as much as its
        limit (`run:limit`) allows; what nobody chooses is not sent. `data` may be changed when it returns, except for
        an array from `empty`, which belongs to the readers then.

        >>> me.put("fields", array, step=3, param=130, levtype="pl")

        Raises:
            Error: an attribute does not exist, is not allowed or is missing, or the port carries messages.
        """
    def put_block(self, port: str, data: Any, shape: Sequence[int] | None, /, **attributes: Any) -> int:
        """Put an object whose array this rank has a block of, `data`; return how many readers choose it.

        `shape` are the extents of the whole array; where the model gives them, `put` does the same. All ranks call
        this, with the same attributes.

        >>> me.put_block("fields", block, (720, 1440), step=3, param="t")

        Raises:
            Error: as `put`, or this is not the block that this rank holds (`block` says which that is).
        """
    def wanted(self, port: str, /, **attributes: Any) -> int:
        """Return how many readers would choose an object on `port` with these attributes, and have not left.

        Where nobody would, the object need not be computed. Nothing is put. Selectors that ask for the payload
        (`sys.size`, `sys.type`, `sys.shape`) see none.

        >>> if me.wanted("fields", step=3, param="t"):
        ...     me.put("fields", interpolated(temperature), step=3, param="t")

        Raises:
            Error: as `put`.
        """
    def group(self, port: str, /, **attributes: Any) -> Group:
        """Return a context in which objects are put on `port` that become visible together, when it ends.

        `attributes` are those that all of them have, unless a `put` says otherwise. Every object of a group has
        `sys.group`, its number, and `sys.follow`, how many of the group follow it at this reader. A group that is
        larger than the limit of a reader waits until that holds nothing.

        >>> with me.group("fields", step=3) as record:
        ...     record.put(temperature, param="t")

        Raises:
            Error: when the block begins: an attribute does not exist or is not allowed, the port carries messages, or
                another group was begun there; when it ends: as `put`.
        """
    def end(self, port: str) -> None:
        """Say that nothing more is put on `port`, for a program that goes on, for example to take answers.

        A reader sees the end when all its writers have said so, or have left. This does not wait; what waits for
        readers is still given to them. A worker of a queue sees the end when all objects there are settled.

        >>> for task in tasks:
        ...     me.put("tasks", task)
        >>> me.end("tasks")
        >>> results = [result.data for result in me.objects("results")]

        Raises:
            Error: a group has begun and not ended, or the port carries messages.
        """
    def take(self, port: str, timeout: float | None = None) -> Object | None:
        """Wait for the next object on `port` that its selector chooses and return it; None when all writers have ended.

        It may be called at any time, any number of times.

        Raises:
            ReceiveTimeoutError: none came within `timeout` seconds.
            PortError: the port is not coupled.
            Error: the port carries messages.
        """
    def objects(self, port: str, timeout: float | None = None) -> Iterator[Object]:
        """Iterate over the objects on `port` until all writers have ended: `for field in me.objects("fields")`.

        With a time-out, `ReceiveTimeoutError` is raised when none comes for so many seconds.
        """
    def send_gathered(
        self,
        port: str,
        block: Any,
        decomposition: str,
        timestamp: float | None = None,
        next_timestamp: float | EllipsisType | None = ...,
        *,
        to: int | None = None,
    ) -> bool:
        """Put the blocks of all ranks together on rank 0, which sends the whole array on `port`.

        Returns False if the receiver has left. `decomposition` says how the ranks lie to each other, as `run:decomp`
        does: "block(x:2,y:2)". The blocks need not be of equal size, but must make a grid.
        """
    def receive(self, port: str, *, of: int | None = None, default: Any = ..., timeout: float | None = None) -> Message:
        """Wait for the next message on `port` and return it.

        `default` is the data returned when the port is not coupled, or brings the state of the previous pass and this
        is the first.

        Raises:
            EndedError: the sender has ended.
            ReceiveTimeoutError: no message came within `timeout` seconds.
        """
    def receive_or_end(self, port: str, of: int | None = None) -> Message | None:
        """Wait for the next message on `port` and return it, or None when its sender has ended."""
    def receive_all(self, port: str) -> list[Message]:
        """Receive one message from every copy at the other end of `port`.

        Returns a list with one message if it is not a multiplied instance.
        """
    def has_message(self, port: str, of: int | None = None) -> bool:
        """Return whether a message waits on `port`, so that `receive` would return at once."""
    def skip(self, port: str) -> None:
        """Declare that nothing is sent on `port` in this iteration (O_i) or pass (O_f)."""
    def connected(self, port: str) -> bool:
        """Return whether `port` is coupled in this model.

        One that brings the state of the previous pass is not, during the first.
        """
    def copies(self, port: str) -> int:
        """Return how many copies are at the other end of `port`; 0 if it is not a multiplied instance."""
    def methods(self, port: str) -> list[dict[str, Any]]:
        """Return how each conduit of `port` travels, and what has passed.

        `conduit` and `name` say which; `chosen` is the method in use (None while that is not known), `refused` says why
        methods before it were not taken, `slower` which would have been the next. `messages` and `bytes` were sent (at
        an in port: taken), `messages_per_s` and `bytes_per_s` are the rates since the previous call, and `latency_s` is
        how long a message took lately until the receiver had taken it and this was known here (None at an in port).
        """
    def set_methods(self, port: str, methods: Sequence[str]) -> None:
        """Allow these methods on every conduit of `port` from now on, in this order (none: all, fastest first).

        Also while messages pass: none is lost, doubled or reordered. May be called at either end. Returns when the
        conduits travel by what is allowed now. If none of the methods leads to the receiver, the conduit goes on as
        before, and an `Error` says why.
        """
    def on_message(self, port: str, callback: Callable[[Message], object] | None) -> None:
        """Have `callback` called with every message of the in port `port`; None: no longer.

        It is called by the thread that waits in a call of this instance (`receive`, `reuse`, a `send` on a full
        conduit, `serve`), as soon as the message is there and the order of operators allows its receipt, which the call
        is. Never two callbacks at once, never one within another. An exception in it fails the run, and comes out of
        the call that waited.
        """
    def serve(self, timeout: float | None = None) -> bool:
        """Wait until at least one callback was called; return False if nothing more will come on any port that has one.

        Raises:
            ReceiveTimeoutError: no callback was called within `timeout` seconds (0: only for what is there).
        """
    def _handle(self, port: str, holders: int, methods: Sequence[str]) -> bytes:
        """Return a handle of the open in port `port`, as bytes (see `xmml.Instance.handle`)."""
    def open(self, port: str, handle: bytes) -> int:
        """Send to the port that `handle` stands for what is sent on the open out port `port`, from now on.

        Returns a number by which `send` can address it alone (`to`); without, a send goes to every handle that is open
        at the port. Each opening makes a conduit of its own, which ends when it is closed or this instance leaves.
        """
    def close(self, port: str, number: int | None = None) -> None:
        """End what `open` began: that with this number, or all that are open at `port`.

        What was sent before arrives.
        """
    def revoke(self, handle: bytes) -> None:
        """Let nobody open this handle of an own port any more; conduits that it has made go on."""
    def warn(self, text: str) -> None:
        """Tell people something through the run's log."""
    def fail(self, text: str) -> None:
        """Tell the run that this instance failed, and why; does not end the program."""
    def abandon(self) -> None:
        """End without leaving, as a program that ends does. After `leave` nothing happens."""
    def leave(self) -> None:
        """End normally: what is queued is still delivered, then every receiver is told that no more comes."""

@disjoint_base
class BoundPort:
    """A port of an instance, looked up once: what `out` and `in_` of an instance return.

    Its calls are those of the instance, without the name of the port.
    """

    @property
    def name(self) -> str:
        """Id in the model."""
    def connected(self) -> bool:
        """Return whether the port is coupled in this model.

        One that brings the state of the previous pass is not, during the first.
        """
    def copies(self) -> int:
        """Return how many copies are at the other end; 0 if it is not a multiplied instance."""
    def methods(self) -> list[dict[str, Any]]:
        """Return how each conduit of the port travels, and what has passed, as `Instance.methods` does."""
    def set_methods(self, methods: Sequence[str]) -> None:
        """Allow these methods on every conduit of the port from now on, as `Instance.set_methods` does."""
    def block(self, shape: Sequence[int] | None = None) -> Block:
        """Return the part of the array on the port that this rank holds, as `Instance.block` does."""

@final
class OutPort(BoundPort):
    """An out port that was looked up once: what `Instance.out` returns."""

    def send(
        self,
        data: Any = None,
        timestamp: float | None = None,
        next_timestamp: float | EllipsisType | None = ...,
        *,
        to: int | None = None,
        shape: Sequence[int] | None = None,
    ) -> bool:
        """Send `data` on the port; return False if the receiver has left. `Instance.send` explains the arguments."""
    def put(self, data: Any = None, /, **attributes: Any) -> int:
        """Offer an object on the port, whose couplings are pools; return how many readers choose it.

        `Instance.put` explains it.
        """
    def put_block(self, data: Any, shape: Sequence[int] | None, /, **attributes: Any) -> int:
        """Put an object of which `data` is the block of this rank. `Instance.put_block` explains it."""
    def wanted(self, **attributes: Any) -> int:
        """Return how many readers would choose an object with these attributes. `Instance.wanted` explains it."""
    def group(self, **attributes: Any) -> Group:
        """Return a context in which objects are put that become visible together, as `Instance.group` does."""
    def end(self) -> None:
        """Say that nothing more is put here. `Instance.end` explains it."""
    def send_gathered(
        self,
        block: Any,
        decomposition: str,
        timestamp: float | None = None,
        next_timestamp: float | EllipsisType | None = ...,
        *,
        to: int | None = None,
    ) -> bool:
        """Put the blocks of all ranks together on rank 0, which sends the array, as `Instance.send_gathered` does."""
    def skip(self) -> None:
        """Declare that nothing is sent on the port in this iteration (O_i) or pass (O_f)."""
    def open(self, handle: bytes) -> int:
        """Send to the port that `handle` stands for what is sent on this open port, as `Instance.open` does."""
    def close(self, number: int | None = None) -> None:
        """End what `open` began: that with this number, or all that are open at the port."""

@final
class InPort(BoundPort):
    """An in port that was looked up once: what `Instance.in_` returns."""

    def receive(self, *, of: int | None = None, default: Any = ..., timeout: float | None = None) -> Message:
        """Wait for the next message and return it. The arguments and errors are those of `Instance.receive`."""
    def receive_or_end(self, of: int | None = None) -> Message | None:
        """Wait for the next message and return it, or None when its sender has ended."""
    def take(self, timeout: float | None = None) -> Object | None:
        """Wait for the next object that the selector chooses and return it; None when all writers have ended.

        The errors are those of `Instance.take`.
        """
    def objects(self, timeout: float | None = None) -> Iterator[Object]:
        """Iterate over the objects until all writers have ended: `for field in port.objects()`."""
    def receive_all(self) -> list[Message]:
        """Receive one message from every copy at the other end.

        Returns a list with one message if it is not a multiplied instance.
        """
    def messages(self, *, of: int | None = None) -> Iterator[Message]:
        """Iterate over the messages until the sender has ended: `for message in port.messages()`."""
    def has_message(self, of: int | None = None) -> bool:
        """Return whether a message waits, so that `receive` would return at once."""
    def on_message(self, callback: Callable[[Message], object] | None) -> None:
        """Have `callback` called with every message; None: no longer. `Instance.on_message` says when it is called."""
    def handle(self, *, holders: int = 1, methods: Sequence[str] = ()) -> Handle:
        """Return a handle of this open port, as `Instance.handle` does."""

@final
class Coordinator:
    """The listener to which the instances of a run connect.

    It tells each instance who it is, and turns what instances report into events.

    Args:
        run_id: the name of the run.
        secret: the key of the run.
        listen: host and port at which to listen for TCP as well ("127.0.0.1:0").
        relay: host and port of a relay and its site ("login:40001/alpha") through which to be reached.
    """

    def __new__(cls, run_id: str, secret: bytes, listen: str | None = None, relay: str | None = None) -> Self: ...
    @property
    def addresses(self) -> list[str]:
        """Where instances can reach it, for XMML_COORDINATOR."""
    def fileno(self) -> int:
        """Return a descriptor that is readable while events wait."""
    def take_events(self) -> list[dict[str, Any]]:
        """Return the events since the last call, as dictionaries with the key "event"; never wait."""
    def wait_events(self, timeout: float) -> list[dict[str, Any]]:
        """Return the events as `take_events` does, but wait up to `timeout` seconds for the first one."""
    def define(self, spec: Mapping[str, Any]) -> None:
        """Make an instance known; `spec` has the fields of the plan."""
    def define_plan(self, text: str) -> None:
        """Make all instances of a plan known, which is given as the text of its `plan.json`."""
    def add_tap(self, spec: Mapping[str, Any]) -> None:
        """Make a tap known, which may join from now on: an instance of which the model knows nothing.

        `spec` has the fields of an instance of the plan, and its conduits, which begin at out ports of other
        instances and are pools with `is_tap`. When it has joined, there is an event "opened" for each.
        """
    def abort(self, reason: str) -> None:
        """Tell every instance that the run is over, and why."""
    def go_on_without(self, instance: str) -> None:
        """Tell the partners of an instance that it has died while the run goes on, and let it in no more."""
    def grow(self, conduit: int, capacity: int) -> None:
        """Give a conduit more capacity."""
    def confirm(self, instance: str, epoch: int) -> None:
        """Ask an instance whether it still waits as it reported with `epoch`; the answer is the event "confirmed"."""
    def change(self, conduit: int, methods: Sequence[str]) -> int:
        """Allow other methods on a conduit, in this order (none: all); return the number of the change.

        The event "changed" with this number says what became of it.
        """
    def enquire(self, number: int) -> None:
        """Ask every instance how its conduits travel; each answer is an event "figures" with this number."""
    def close(self) -> None:
        """Stop listening and close every connection."""

def rank_pairs(sender: Sequence[tuple[int, int]], receiver: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of a sending and a receiving rank that can have elements of an array in common.

    Each side is given as its dimensions, each with the number of parts into which it is cut.
    """

def read_handle(handle: bytes) -> tuple[str, str, str, list[str]]:
    """Return what a handle of a port says: its text, the instance, the port, and its methods.

    Without methods, whoever opens it gets them from the coordinator.
    """

def filter_outputs(spec: Mapping[str, Any], n: int) -> int:
    """Return how many messages the built-in filter of `spec` (name, factor, params) has emitted after `n` inputs."""

def filter_size_ratio(spec: Mapping[str, Any]) -> float:
    """Return the bytes out per byte in of the built-in filter of `spec`, roughly."""

@final
class AttributeSchema:
    """The attributes that objects of a datatype have.

    Args:
        text: declarations with white space between them: `NAME:TYPE`, a range such as `[0..]` behind the type, `!` for
            what each object must have, `=VALUE` for a default.

    Raises:
        ValueError: the text is no such declaration; its arguments are what is wrong, the first character of that, and
            the one behind the last.

    >>> AttributeSchema("step:int[0..]! levtype:enum(sfc,pl,ml)")
    AttributeSchema('step:int[0..]! levtype:enum(sfc,pl,ml)')
    """

    def __new__(cls, text: str) -> AttributeSchema: ...
    def complete(self, attributes: Mapping[str, Any], system: Mapping[str, Any] = ...) -> Attributes:
        """Return the attributes of an object, checked and with defaults.

        Args:
            attributes: those that were declared.
            system: those that every object has, such as `sys.t`; what is not given is 0, empty or absent.

        Raises:
            ValueError: an attribute that does not exist, is not allowed or is missing.
            TypeError: a value that no attribute can have.
        """
    def types(self) -> dict[str, str]:
        """Return the type of each attribute, without its range: `{"step": "int", "levtype": "enum(sfc,pl)"}`."""

@final
class Attributes:
    """The attributes of one object."""

@final
class Selector:
    """A predicate over the attributes of objects.

    Args:
        text: such as "param in (130, 131) and step % 6 = 0".
        schema: the attributes.
        variables: values of `$index`, `$count` and the parameters of the reader.

    Raises:
        ValueError: the text is no selector of these attributes; its arguments are as those of `AttributeSchema`.
    """

    def __new__(cls, text: str, schema: AttributeSchema, variables: Mapping[str, Any] = ...) -> Selector: ...
    def matches(self, object: Attributes) -> bool:
        """Return whether it chooses an object.

        Raises:
            ValueError: a result that no type can hold, or a remainder by zero.
        """

    def needs(self, schema: AttributeSchema) -> list[tuple[str, list[Any]] | tuple[str, Any, Any]]:
        """Return conditions that every object meets that the selector chooses, or that it cannot be compared with.

        `(name, values)`: the attribute is one of the values. `(name, least, most)`: it lies between these, and may be
        either; `None`: there is no such end.

        Args:
            schema: the attributes for which it was compiled.
        """

    def can_match(self, schema: AttributeSchema) -> bool:
        """Return whether there may be an object that it chooses; false is certain."""

def selector_variables(text: str) -> list[str]:
    """Return the names behind a `$` in a selector, each once.

    Raises:
        ValueError: the text is no sequence of words of selectors; its arguments are as those of `AttributeSchema`.
    """

class CopyFailure(Exception):
    """An end of a copy cannot go on: "peer failed", "malformed", "no room", "too much" or "stopped", and why."""

@final
class CopySource:
    """The end of a copy that has the files: lists, reads, sends what the other end lacks.

    Args:
        paths: files and folders; the first part of the path of each copy is the name of one of them.
        names: what these parts are instead, as many as paths.
    """

    def __new__(cls, paths: Sequence[PathLike[str]], names: Sequence[str] | None = None) -> CopySource: ...
    def run(self, send: Callable[[bytes], object]) -> dict[str, Any]:
        """Give everything away; return what came of it: the fields of a report.

        Another thread hears meanwhile.

        Args:
            send: sends a message; an exception of it ends the copy.

        Raises:
            CopyFailure: the copy cannot go on.
        """
    def hear(self, message: Buffer) -> bool:
        """Take in what the target says; return whether it says more."""
    def last_word(self) -> str | None:
        """Return why the target has stopped, if it has said so; for after a message could not be sent.

        Waits a little while the other thread still hears.
        """
    def lose(self) -> None:
        """End the copy, as nothing will be heard any more."""
    def how_far(self) -> tuple[tuple[int, int] | None, int, int]:
        """Return how far it is: files and bytes to copy, once that is known, bytes that stand at the
        target, and bytes that were read here to be compared.
        """

@final
class CopyTarget:
    """The end of a copy that gets the files: compares with what is there, writes, checks every range.

    Args:
        folder: where they go.
        name: what the first part of their paths becomes; None: what it is.
        compare: compare files of the same size and time by their checksums, too.
        only: the paths of the files to take; None: everything is taken.
        trees: the names of the files and folders to take, and how many more there are whose names
            the source alone knows; None: as `only` says.
        listing_memory: how much memory the listing may take, with what fails of it [bytes]; None: as
            much as there is.
    """

    def __new__(
        cls,
        folder: PathLike[str],
        name: str | None = None,
        *,
        compare: bool = False,
        only: Sequence[str] | None = None,
        trees: tuple[Sequence[str], int] | None = None,
        listing_memory: int | None = None,
    ) -> CopyTarget: ...
    def consider(self, send: Callable[[bytes], object]) -> None:
        """Look at what is there already, and tell the source; return when there is nothing left to look at.

        This has a thread of its own.
        """
    def hear(self, message: Buffer, send: Callable[[bytes], object]) -> bool:
        """Act on what the source says; return whether it says more.

        Args:
            send: sends a message; an exception of it ends the copy.

        Raises:
            CopyFailure: the copy cannot go on.
        """
    def stop(self) -> None:
        """End the considering, and close the files that are not complete."""
    def report(self) -> dict[str, Any]:
        """Return what came of the copy so far: the fields of a report. A later report lacks what has
        failed: that may take much memory, and is not kept here.
        """
    def how_far(self) -> tuple[tuple[int, int] | None, int, int]:
        """Return how far it is: files and bytes to copy, once that is known, bytes that stand at the
        target, and bytes that were read here to be compared.
        """
