"""What people see while a model runs: each instance's output with its name in front, and how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from xmml_executors.instance_record import InstanceRecord, Lifecycle
from xmml_executors.report import seconds, size
from xmml_planner import Plan, PlannedInstance

from xmml_run.terminal_text import shown, unguarded

if TYPE_CHECKING:
    from rich.console import RenderableType

#: What goes before and after the programs of a run is told apart from so long on [s].
MUCH_MORE_S = 1.0
#: Colours of the instances' names, in turn.
COLOURS = (
    "cyan",
    "magenta",
    "green",
    "yellow",
    "blue",
    "bright_red",
    "bright_cyan",
    "bright_magenta",
    "bright_green",
    "bright_blue",
)
_ANSI = {
    "cyan": 36,
    "magenta": 35,
    "green": 32,
    "yellow": 33,
    "blue": 34,
    "bright_red": 91,
    "bright_cyan": 96,
    "bright_magenta": 95,
}
_ANSI |= {"bright_green": 92, "bright_blue": 94}
#: A name is set to at most this width.
WIDEST_NAME = 24
#: Instances shown in the live table; the copies beyond are summed up in one row.
MOST_ROWS = 24


class NoDisplay:
    """Shows nothing but notices."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def output(self, instance: str, stream: str, line: str) -> None:
        """Do not show it; it is in the log."""

    def notice(self, text: str, instance: str | None) -> None:
        """Show it."""
        told = f"warning: {instance}: {text}" if instance else f"xmml-run: {text}"
        print(shown(told) if self._stream.isatty() else told, file=self._stream, flush=True)

    def refresh(self, records: Mapping[str, InstanceRecord]) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing is open."""


class PlainLines(NoDisplay):
    """Lines with the instance's name in front: for files, pipes, and terminals without a live display."""

    def __init__(self, names: Iterable[str], out: TextIO, err: TextIO, *, colour: bool, is_raw: bool = False) -> None:
        """
        Args:
            is_raw: show on a terminal also what would command it.
        """
        super().__init__(err)
        self._is_raw = is_raw
        self._streams = {"stdout": out, "stderr": err}
        self._labels = labels(names, colour)

    def output(self, instance: str, stream: str, line: str) -> None:
        """Print the line."""
        where = self._streams[stream]
        text = line if self._is_raw or not where.isatty() else shown(line)
        print(f"{self._labels.get(instance, instance)} | {text}", file=where, flush=True)


def labels(names: Iterable[str], colour: bool) -> dict[str, str]:
    """Return the names set to one width, coloured if wanted."""
    listed = list(names)
    width = min(max(map(len, listed), default=0), WIDEST_NAME)
    if not colour:
        return {name: name.ljust(width) for name in listed}
    return {
        name: f"\x1b[{_ANSI[COLOURS[number % len(COLOURS)]]}m{name.ljust(width)}\x1b[0m"
        for number, name in enumerate(listed)
    }


class Live:
    """A table at the foot of the terminal that follows the run; output scrolls by above it."""

    def __init__(self, plan: Plan, names: Iterable[str]) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._plan = plan
        self._labels = labels(names, colour=True)
        self._console = Console(file=unguarded(sys.stdout), highlight=False, soft_wrap=True)
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def output(self, instance: str, stream: str, line: str) -> None:
        """Print the line above the table."""
        from rich.text import Text

        self._console.print(Text.from_ansi(f"{self._labels.get(instance, instance)} | {shown(line)}"))

    def notice(self, text: str, instance: str | None) -> None:
        """Print it above the table."""
        from rich.text import Text

        told = f"warning: {instance}: {text}" if instance else f"xmml-run: {text}"
        self._console.print(Text(shown(told), style="yellow"))

    def refresh(self, records: Mapping[str, InstanceRecord]) -> None:
        """Draw the table anew."""
        self._live.update(table(self._plan, records), refresh=True)

    def close(self) -> None:
        """Take the table away."""
        self._live.stop()


def table(plan: Plan, records: Mapping[str, InstanceRecord]) -> RenderableType:
    """Return the live table: model time against its total, state, messages, bytes."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    grid = Table(box=None, padding=(0, 1), expand=False)
    has_sites = len({instance.site for instance in plan.instances}) > 1
    for head, justify in (
        ("", "left"),
        *([("site", "left")] if has_sites else []),
        ("state", "left"),
        ("", "left"),
        ("model time", "right"),
        ("messages", "right"),
        ("bytes", "right"),
    ):
        grid.add_column(head, justify=justify)  # type: ignore[arg-type]
    called = called_instances(plan)
    end_s = end_of_run(plan, called)
    for instance in plan.instances[:MOST_ROWS]:
        record = records[instance.name]
        done = fraction(instance, record, end_s if instance.name in called else None)
        bar: Any = ProgressBar(total=1.0, completed=done, width=24) if done is not None else ""
        grid.add_row(
            instance.name,
            *([instance.site] if has_sites else []),
            state_in_words(plan, record),
            bar,
            model_time(instance, record),
            f"{record.messages_sent + record.messages_received:,}",
            size(record.bytes_sent + record.bytes_received),
        )
    if len(plan.instances) > MOST_ROWS:
        rest = [records[instance.name] for instance in plan.instances[MOST_ROWS:]]
        ended = sum(record.state.is_final for record in rest)
        messages = sum(record.messages_sent + record.messages_received for record in rest)
        traffic = sum(record.bytes_sent + record.bytes_received for record in rest)
        more = [f"and {len(rest)} more", *([""] if has_sites else []), f"{ended} ended"]
        grid.add_row(*more, "", "", f"{messages:,}", size(traffic))
    return grid


def called_instances(plan: Plan) -> set[str]:
    """Return the submodels that run whenever others send to them: no telling how often."""
    initial = {
        (instance.name, port.name) for instance in plan.instances for port in instance.ports if port.operator == "finit"
    }
    return {
        conduit.receiver
        for conduit in plan.conduits
        if (conduit.receiver, conduit.receiver_port) in initial and not conduit.is_state
    }


def end_of_run(plan: Plan, called: Collection[str]) -> float | None:
    """Return the model time at which the last of the submodels ends that start by themselves, if that is known."""
    own = [one for one in plan.instances if one.kind == "submodel" and one.name not in called]
    if any(one.until for one in own):
        return None
    return max((one.total_s or one.steps * one.delta_s for one in own), default=0.0) or None


def fraction(instance: PlannedInstance, record: InstanceRecord, end_s: float | None = None) -> float | None:
    """Return how much of its work an instance has done; `None` if there is no telling.

    Args:
        end_s: for an instance that others call, the model time at which they end; without it, and for all others, it
            is the steps of its present run that count.
    """
    if instance.kind != "submodel" or instance.steps == 0:
        return None
    if record.state in (Lifecycle.LEFT, Lifecycle.DONE):
        return 1.0
    if record.state is not Lifecycle.RUNNING:
        return 0.0
    if end_s is not None:
        return min(1.0, max(0.0, record.time / end_s))
    if instance.until:
        return 0.0
    return min(1.0, record.iteration / instance.steps)


def model_time(instance: PlannedInstance, record: InstanceRecord) -> str:
    """Return an instance's model time against its total, and which run it is at if it makes several."""
    if instance.kind != "submodel" or record.joined_at is None:
        return ""
    total = instance.total_s or instance.steps * instance.delta_s
    if record.run > 1:
        return f"run {record.run}, {quantity(record.time)}"
    return f"{quantity(record.time)} of {quantity(total)}" if total else quantity(record.time)


def quantity(time_s: float) -> str:
    """Return a model time for people: `90 s`, `2.5 ms`, `3 days`.

    >>> quantity(90), quantity(0.0025), quantity(259200), quantity(0)
    ('90 s', '2.5 ms', '3 days', '0 s')
    """
    if time_s == 0:
        return "0 s"
    for factor, unit in (
        (31_536_000.0, "years"),
        (86_400.0, "days"),
        (3600.0, "h"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "us"),
    ):
        least = 2 * factor if factor >= 3600 else factor
        if abs(time_s) >= least:
            return f"{time_s / factor:.4g} {unit}"
    return f"{time_s:.3g} s"


def state_in_words(plan: Plan, record: InstanceRecord) -> str:
    """Return the state of an instance, and of one that waits, for whom."""
    if record.state is Lifecycle.RUNNING and record.away_since is not None:
        return "its connection is broken"
    if record.state is not Lifecycle.RUNNING or not record.waits_for:
        return record.state.value
    return f"waits for {record.waits_for[0].partner}"


def summary_line(plan: Plan, wall_s: float, records: Mapping[str, InstanceRecord]) -> str:
    """Return what ran, in one sentence: how long from the start of the first program to the end of the last one, and
    since the launch, if that is much more.

    Args:
        wall_s: since the launch.
    """
    began = min((record.started_at for record in records.values() if record.started_at is not None), default=None)
    ended = max((record.ended_at for record in records.values() if record.ended_at is not None), default=None)
    ran_s = wall_s if began is None or ended is None else ended - began
    since = f", {seconds(wall_s)} since the launch," if wall_s - ran_s > max(MUCH_MORE_S, ran_s / 2) else ""
    messages = sum(record.messages_sent for record in records.values())
    traffic = sum(record.bytes_sent for record in records.values())
    count = sum(instance.rank_of is None for instance in plan.instances)
    return (
        f"{plan.model}: {count} instance{'' if count == 1 else 's'} ran {seconds(ran_s)}{since} and exchanged "
        f"{messages:,} message{'' if messages == 1 else 's'} ({size(traffic)})"
    )


Display = NoDisplay | Live


class FailsafeDisplay:
    """A display whose terminal or reader may go away: then the run goes on, and nothing is shown any more."""

    def __init__(self, display: Display) -> None:
        self._display: Display | None = display

    def output(self, instance: str, stream: str, line: str) -> None:
        """Show a line."""
        self._try(lambda display: display.output(instance, stream, line))

    def notice(self, text: str, instance: str | None) -> None:
        """Show a notice."""
        self._try(lambda display: display.notice(text, instance))

    def refresh(self, records: Mapping[str, InstanceRecord]) -> None:
        """Show how far everyone is."""
        self._try(lambda display: display.refresh(records))

    def close(self) -> None:
        """Take the display away."""
        self._try(lambda display: display.close())

    def _try(self, show: Callable[[Display], None]) -> None:
        if self._display is None:
            return
        try:
            show(self._display)
        except OSError:
            self._display = None


def choose_display(plan: Plan, *, quiet: bool, json: bool, progress: bool, is_raw: bool = False) -> FailsafeDisplay:
    """Return the display that fits the options and where the output goes."""
    names = [
        *(instance.name for instance in plan.instances),
        *(f"build {number}" for number in range(1, len(plan.builds) + 1)),
    ]
    out, err = unguarded(sys.stdout), unguarded(sys.stderr)
    if quiet:
        return FailsafeDisplay(NoDisplay(err))
    if json:
        return FailsafeDisplay(PlainLines(names, err, err, colour=err.isatty(), is_raw=is_raw))
    if progress and out.isatty() and err.isatty():
        return FailsafeDisplay(Live(plan, names))
    return FailsafeDisplay(PlainLines(names, out, err, colour=out.isatty(), is_raw=is_raw))
