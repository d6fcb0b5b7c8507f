"""What of a task graph is drawn on a time line: which rows, which stretches of time, and what is left out.

A person sees a few hundred bars. Of longer runs the beginning and the end are drawn, and in between what each row
leaves out is said; of many copies the first ones and the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xmml.analysis.outcome import Blocked
from xmml.analysis.task_graph import FINIT, NO_OPERATOR, OF, TaskGraph
from xmml.analysis.unrolling import Unrolling
from xmml.graphs.task_times import TaskTimes
from xmml.late_dataclass import dataclass

#: About so many bars are drawn in all and for each row, so many rows, and so many copies of an instance or definition.
MOST_BARS = 260
MOST_BARS_IN_A_ROW = 14
MOST_ROWS = 32
MOST_COPIES = 4


@dataclass(frozen=True)
class Row:
    """A line of the picture: a process, or (`process` is `None`) what is said of several that are not drawn."""

    name: str
    process: int | None


@dataclass(frozen=True)
class Stretch:
    """A part of the time that is drawn [ns]."""

    begin: int
    end: int


@dataclass(frozen=True)
class Bar:
    """A task: its row, when it begins and ends [ns], and what may be written on it, the longer text first."""

    node: int
    row: int
    begin: int
    end: int
    texts: tuple[str, ...]
    is_critical: bool


@dataclass(frozen=True)
class Arrow:
    """A message or a state from one bar to another (places in `TimeLine.bars`)."""

    sender: int
    receiver: int
    is_state: bool
    is_critical: bool


@dataclass(frozen=True)
class Halt:
    """Where something waits for ever: its row, since when [ns], its label, and what it waits for."""

    row: int
    at: int
    label: str
    waits_for: str


@dataclass(frozen=True)
class TimeLine:
    """What is drawn.

    Attributes:
        stretches: one, or the beginning and the end.
        left_out: by row, what lies between two stretches or after the last, if something does.
        is_cut: the time after the last stretch was not looked at.
    """

    rows: tuple[Row, ...]
    stretches: tuple[Stretch, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...]
    halts: tuple[Halt, ...]
    left_out: tuple[str, ...]
    is_depth: bool
    is_cut: bool


def time_line(unrolling: Unrolling, times: TaskTimes, blocked: Sequence[Blocked]) -> TimeLine:
    """Return what is drawn of a task graph. Linear in its nodes and edges, apart from sorting."""
    graph = unrolling.task_graph
    rows = _rows(graph, times)
    row_of = {row.process: place for place, row in enumerate(rows) if row.process is not None}
    nodes = [node for node in range(len(graph)) if graph.process[node] in row_of]
    most = min(MOST_BARS, MOST_BARS_IN_A_ROW * len(row_of))
    stretches = _stretches(nodes, times, most, unrolling.truncated)
    shown = [node for node in nodes if any(_in(times, node, stretch) for stretch in stretches)]
    critical = set(times.critical)
    repeated = {graph.process[node] for node in nodes if graph.run[node]}
    bars = tuple(
        Bar(
            node,
            row_of[graph.process[node]],
            times.begin[node],
            times.end[node],
            _texts(graph, node, graph.process[node] in repeated),
            node in critical,
        )
        for node in shown
    )
    place = {bar.node: number for number, bar in enumerate(bars)}
    return TimeLine(
        rows=rows,
        stretches=stretches,
        bars=bars,
        arrows=_arrows(graph, times, place),
        halts=_halts(graph, times, blocked, row_of),
        left_out=_left_out(graph, rows, set(shown), unrolling.truncated),
        is_depth=times.is_depth,
        is_cut=unrolling.truncated,
    )


# --- rows


def _rows(graph: TaskGraph, times: TaskTimes) -> tuple[Row, ...]:
    processes = graph.network.processes
    first: dict[int, tuple[int, int]] = {}
    for place, node in enumerate(graph.order):
        first.setdefault(graph.process[node], (times.begin[node], place))
    never = (times.makespan + 1, len(graph))
    stuck = {task.process for task in graph.blocked}
    order = sorted(range(len(processes)), key=lambda each: (first.get(each, never), each))
    by_instance = [processes[each].instance for each in range(len(processes))]
    definitions = graph.network.model.instances
    by_definition = [definitions[name].definition.id for name in by_instance]
    rows = _thinned([Row(processes[each].name, each) for each in order], by_instance, "copies", stuck)
    if len(rows) > MOST_ROWS:
        rows = _thinned([Row(processes[each].name, each) for each in order], by_definition, "instances", stuck)
    if len(rows) > MOST_ROWS:
        rest = len(rows) - MOST_ROWS
        rows = [*rows[:MOST_ROWS], Row(f"… {rest} more", None)]
    return tuple(rows)


def _thinned(rows: Sequence[Row], groups: Sequence[str], noun: str, kept: set[int]) -> list[Row]:
    """Return the rows with all but the first ones and the last of each group as one; what is stuck comes first."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        if row.process is not None:
            members.setdefault(groups[row.process], []).append(row)
    result: list[Row] = []
    for group, own in members.items():
        if len(own) <= MOST_COPIES:
            result += own
            continue
        stuck_first = sorted(own, key=lambda row: row.process not in kept)
        shown = {row.process for row in (*stuck_first[: MOST_COPIES - 2], own[-1])}
        hidden = [row for row in own if row.process not in shown]
        result += [row for row in own[:-1] if row.process in shown]
        result += [Row(f"… {len(hidden)} more {noun} of {group}", None), own[-1]]
    return result


# --- time


def _stretches(nodes: Sequence[int], times: TaskTimes, most: int, is_cut: bool) -> tuple[Stretch, ...]:
    makespan = times.makespan
    if len(nodes) <= most:
        return (Stretch(0, makespan),)
    head = most if is_cut else most * 3 // 5
    begins = sorted(times.begin[node] for node in nodes)
    until = begins[head]
    if is_cut:
        return (Stretch(0, until),)
    ends = sorted((times.end[node] for node in nodes), reverse=True)
    since = ends[most - head]
    return (Stretch(0, makespan),) if since <= until else (Stretch(0, until), Stretch(since, makespan))


def _in(times: TaskTimes, node: int, stretch: Stretch) -> bool:
    begin, end = times.begin[node], times.end[node]
    if begin == end:
        return stretch.begin <= begin <= stretch.end
    return begin < stretch.end and end > stretch.begin


def _left_out(graph: TaskGraph, rows: Sequence[Row], shown: set[int], is_cut: bool) -> tuple[str, ...]:
    """Return for each row which runs, firings or iterations are not drawn; nothing at all if all are."""
    hidden: dict[int, list[int]] = {}
    drawn = {row.process for row in rows}
    for node in graph.order:
        if graph.process[node] in drawn and node not in shown:
            hidden.setdefault(graph.process[node], []).append(node)
    if not hidden:
        return ()
    return tuple("" if row.process not in hidden else _span(graph, hidden[row.process], is_cut) for row in rows)


def _span(graph: TaskGraph, nodes: Sequence[int], is_cut: bool) -> str:
    first, last = nodes[0], nodes[-1]
    if graph.first_operator[first] == NO_OPERATOR:
        what, low, high = "firing", graph.run[first], graph.run[last]
    elif graph.run[first] != graph.run[last] or (graph.first_operator[first], graph.last_operator[first]) == (
        FINIT,
        OF,
    ):
        what, low, high = "run", graph.run[first], graph.run[last]
    else:
        what, low, high = "iteration", graph.first_iteration[first], graph.last_iteration[last]
    if is_cut:
        return f"{what}s {low:,} and on"
    return f"{what} {low:,}" if low == high else f"{what}s {low:,} … {high:,}"


# --- bars and arrows


def _texts(graph: TaskGraph, node: int, has_runs: bool) -> tuple[str, ...]:
    """Return what may be written on a bar, the longer text first.

    Args:
        has_runs: the process has more runs than one, so their numbers say something.
    """
    label = graph.label(node)
    inside = label.removeprefix(graph.network.processes[graph.process[node]].name)
    run = f"[{graph.run[node]}]" if has_runs else ""
    first, last = graph.first_iteration[node], graph.last_iteration[node]
    iterations = "" if "(" not in inside else f"{first}" if first == last else f"{first}–{last}"
    return tuple(dict.fromkeys(text.strip() for text in (label, inside, f"{run} {iterations}", run) if text.strip()))


def _arrows(graph: TaskGraph, times: TaskTimes, place: dict[int, int]) -> tuple[Arrow, ...]:
    chain = set(zip(times.critical, times.critical[1:], strict=False))
    found = [
        Arrow(place[one], place[other], False, (one, other) in chain)
        for one, other in dict.fromkeys(zip(graph.message_from, graph.message_to, strict=True))
        if one in place and other in place
    ]
    found += [
        Arrow(place[one], place[other], True, (one, other) in chain)
        for one, other in zip(graph.state_from, graph.state_to, strict=True)
        if one in place and other in place
    ]
    return tuple(found)


def _halts(
    graph: TaskGraph, times: TaskTimes, blocked: Sequence[Blocked], row_of: Mapping[int, int]
) -> tuple[Halt, ...]:
    channels = graph.network.channels
    waits = {(each.process, each.run): each.missing for each in blocked}
    latest: dict[int, int] = {}
    for node in range(len(graph)):
        latest[graph.process[node]] = max(latest.get(graph.process[node], 0), times.end[node])
    found = []
    for task in graph.blocked:
        if task.process not in row_of:
            continue
        before = [times.end[node] for node, _ in task.delivered] + [latest.get(task.process, 0)]
        missing = [channels[each.channel].name for each in waits.get((task.process, task.run), ())]
        found.append(Halt(row_of[task.process], max(before), graph.blocked_label(task), ", ".join(missing)))
    return tuple(found)
