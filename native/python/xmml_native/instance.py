"""``Instance``: the calls of ``_native.Instance``, and what is better said in Python."""

from __future__ import annotations

import sys

from xmml_native import _native
from xmml_native.errors import RunAborted, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Literal, NoReturn, Self

    from xmml_native._native import Message
    from xmml_native.handle import Handle
    from xmml_native.mpi import Block, Ranks


class Instance(_native.Instance):
    """This program's part in a run: joins it when made, leaves it at the end of a ``with`` block.

    All ranks of an MPI program join together with ``Instance(comm=MPI.COMM_WORLD)`` (of mpi4py). Rank 0 then talks to
    the run, and every rank makes the same calls and has the same answers; on a parallel port (``run:decomp``) each
    sends and receives its own block. A rank that ends with an exception ends all of them.

    Raises:
        NotInARunError: the program was not started by ``xmml-run``; ``Instance.alone`` works without a run.
    """

    _is_alone = False
    _team: Ranks | None = None

    def __new__(cls, *arguments: Any, comm: Any = None, **options: Any) -> Self:
        """Join; with a communicator, together with all its ranks."""
        if comm is None:
            return super().__new__(cls, *arguments, **options)
        from xmml_native.mpi import Ranks, print_whole_lines

        print_whole_lines()
        team = Ranks(comm)
        me = super().__new__(cls, team=team)
        me._team = team
        return me

    def __init__(self, *, comm: Any = None) -> None:
        super().__init__()

    @classmethod
    def alone(
        cls,
        model: str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        ports: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        delta: float | None = None,
        steps: int | None = None,
        until: bool | None = None,
        copies: Mapping[str, int] | None = None,
        attributes: Mapping[str, str] | None = None,
        check_order: bool = True,
    ) -> Self:
        """An instance without a run: it receives ``inputs`` and records what it sends in ``outputs``.

        Args:
            model: the model that declares the instance; or give ``ports``.
            name: its name in the model, for a copy ``"c[3]"``; needed only if the model has several instances.
            ports: each port's operator (``"finit"``, ``"Oi"``, ``"S"``, ``"B"``, ``"Of"``); for a mapper, and for
                pools, ``"in"`` or ``"out"``.
            inputs: what each in port (``"port"``, or ``"port[3]"`` for one copy) receives: a list of data, of
                ``Message``, or of names of ``.npy`` files, each one message; or the name of one such file. Ports
                without are not coupled.
            params: parameters, over those of the model.
            delta: time step in seconds; 1 without a model.
            steps: iterations per run; 1 without a model.
            until: whether the program decides when to stop.
            copies: for ports that address the copies of a multiplied instance, how many there are.
            attributes: for ports whose couplings are pools, the attributes of their objects, as ``run:attributes``
                declares them; inputs of such ports are ``Object(data, step=3)``, and ``outputs`` has objects.
            check_order: whether calls out of the order of operators are errors.
        """
        from xmml_native import alone

        if model is not None:
            spec = alone.spec_from_model(model, name, delta=delta, steps=steps, params=params or {})
        else:
            spec = alone.spec_from_ports(
                name or "alone", ports or {}, pools=attributes or {}, delta=delta, steps=steps, params=params or {}
            )
        alone.adjust(spec, copies=copies or {}, attributes=attributes or {}, until=until, check_order=check_order)
        me = cls.__new__(cls, spec, alone.queues(spec, inputs or {}))
        me._is_alone = True
        return me

    def messages(self, port: str, *, of: int | None = None) -> Iterator[Message]:
        """Iterate over the messages on ``port`` until its sender has ended: ``for message in me.messages("port")``."""
        while (message := self.receive_or_end(port, of)) is not None:
            yield message
            del message  # its memory may serve the next one

    def handle(self, port: str, *, holders: int = 1, methods: Sequence[str] = ()) -> Handle:
        """A handle of the open in port ``port``: bytes that may be sent to any instance, alone or in maps and lists.

        Whoever has it can ``open`` it and then send to this port.

        Args:
            port: an in port with ``run:open="yes"`` in the model.
            holders: how many may open it; 0: any number. The port ends when all of them have closed it (or left).
            methods: how it is reached, in this order of preference; none: by whatever is fastest for the opener.
        """
        from xmml_native.handle import Handle

        return Handle(self._handle(port, holders, list(methods)))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be copied or pickled: another process cannot take part in a run in this one's place."""
        raise TypeError(
            f"{self.name}: an instance cannot be copied or pickled, it is this process's part in the run; "
            "receive here and hand the data to other processes"
        )

    def block(self, port: str, shape: Sequence[int] | None = None) -> Block:
        """The part of the array on ``port`` that this rank holds.

        Of the last array sent or received there, or of one with the extents that the model gives, or with ``shape``.
        """
        from xmml_native.mpi import Block

        start, extent, whole = self._block(port, None if shape is None else [int(each) for each in shape])
        return Block(tuple(whole), tuple(start), tuple(extent))

    def prefer_order(self, order: Literal["C", "F"]) -> None:
        """In which order, row-major or column-major, the blocks received on parallel ports are put together."""
        if order not in ("C", "F"):
            raise ValueError(f'{order!r} is no order; "C" is row-major, "F" column-major')
        self._prefer_column_major(order == "F")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
            try:
                self.leave()
            except RunAborted as aborted:
                self._stop(aborted)
            except BaseException as failure:
                self._tell(failure)
                raise
        elif isinstance(error, RunAborted):
            self._stop(error)
        else:
            self._tell(error)
        return False

    def _tell(self, failure: BaseException) -> None:
        """Tells the run why this program fails; without a run the traceback says it."""
        if not self._is_alone:
            self.fail(describe(failure))
        if self._team is not None and self.ranks > 1:
            import traceback

            traceback.print_exception(failure)
            sys.stderr.flush()
            self._team.abort()

    def _stop(self, reason: RunAborted) -> None:
        """Ends the program quietly: the run already knows why, and one line is enough here."""
        print(f"{self.name}: {reason}", file=sys.stderr)
        raise SystemExit(1) from None
