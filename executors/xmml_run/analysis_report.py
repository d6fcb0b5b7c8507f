"""An analysis as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from xmml.analysis.analysis import Analysis, Times
from xmml_run.amounts import counted, duration, number, size

Item = TypeVar("Item")

#: Rows of a table that are printed; a larger model has more, `--all` or `--json` shows them.
MOST_ROWS = 40


def report(analysis: Analysis, *, most_rows: int | None = MOST_ROWS) -> str:
    """Return the report.

    Args:
        most_rows: how many instances and couplings are listed; `None`: all.
    """
    parts = [_head(analysis), _trouble(analysis), _couplings(analysis, most_rows), _instances(analysis, most_rows)]
    if analysis.times is not None:
        parts.append(_times(analysis.times))
    parts += [_jobs(analysis), _task_graph(analysis)]
    return "\n\n".join(part for part in parts if part)


def changes(before: Analysis, after: Analysis, settings: Sequence[str]) -> str:
    """Return what other settings change: the numbers that differ, before and after."""
    rows = [
        (f"  {name}", old, "->", new)
        for name, old, new in (
            ("verdict", before.verdict, after.verdict),
            ("run time", _makespan(before), _makespan(after)),
            ("core hours", _core_hours(before), _core_hours(after)),
            *(
                (f"runs of {name}", _count(before.runs.get(name), False), _count(runs, False))
                for name, runs in after.runs.items()
            ),
            *(
                (f"messages {name}", _count(before.messages[name].sent, False), _count(traffic.sent, False))
                for name, traffic in after.messages.items()
            ),
        )
        if old != new
    ]
    head = f"with {', '.join(settings)}:"
    return f"{head} nothing changes" if not rows else f"{head}\n{_aligned(rows)}"


def _makespan(analysis: Analysis) -> str:
    return "-" if analysis.times is None else duration(analysis.times.makespan_s)


def _core_hours(analysis: Analysis) -> str:
    return "-" if analysis.times is None else number(analysis.times.core_hours)


def _head(analysis: Analysis) -> str:
    verdict = {
        "finished": "every instance finishes",
        "deadlock": "it deadlocks",
        "blocked": "some instances wait for messages that never come",
    }[analysis.verdict]
    shape = f"{counted(len(analysis.steps), 'instance')}, {counted(len(analysis.messages), 'coupling')}"
    starts = _some(analysis.initial)
    lines = [f"{analysis.model}: {shape}; {verdict}", f"starts with: {starts or 'nothing'} ({analysis.start} start)"]
    if analysis.pools:
        lines.append(f"{counted(len(analysis.pools), 'pool')}, whose objects are not counted: {_some(analysis.pools)}")
    if analysis.at_most:
        lines.append('"<=": at most; a program decides when to stop')
    return "\n".join(lines)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def _trouble(analysis: Analysis) -> str:
    lines = [analysis.witness] if analysis.witness else list(analysis.conflicts)
    lines += [f"never starts: {name}" for name in analysis.never_start]
    if "never taken" not in analysis.witness:  # it names them too
        lines += [
            f"{name}: {counted(count, 'message')} never taken, of {analysis.messages[name].sent or 0:,}"
            for name, count in analysis.unconsumed.items()
        ]
    return "\n".join(lines)


def _couplings(analysis: Analysis, most_rows: int | None) -> str:
    if not analysis.messages:
        return ""
    bounds = set(analysis.at_most)
    rows = []
    for name, traffic in _first(analysis.messages.items(), most_rows):
        sent = _count(traffic.sent, name in bounds)
        received = _count(traffic.received, name in bounds)
        rows.append(
            (
                name,
                traffic.template or "-",
                sent if sent == received else f"{sent} / {received}",
                "-" if traffic.bytes is None else size(traffic.bytes),
                "-" if traffic.capacity is None else f"{traffic.capacity:,}",
                "-" if traffic.max_in_flight is None else f"{traffic.max_in_flight:,}",
            )
        )
    head = ("coupling", "template", "messages", "bytes", "capacity", "in flight")
    return _table(head, rows, len(analysis.messages) - len(rows))


def _instances(analysis: Analysis, most_rows: int | None) -> str:
    bounds = set(analysis.at_most)
    times = analysis.times
    is_timed = times is not None and not _is_unknown(times)
    rows = []
    for name, runs in _first(analysis.runs.items(), most_rows):
        instance = name.partition("[")[0]
        row = [name, analysis.domains.get(instance) or "-", _count(runs, name in bounds or instance in bounds)]
        row.append(_count(analysis.steps.get(instance), instance in bounds))
        if times is not None and is_timed:
            busy, idle = times.busy_s.get(name, 0.0), times.idle_s.get(name, 0.0)
            share = f"{100 * busy / (busy + idle):.0f} %" if busy + idle else "-"
            row += ["?" if instance in times.unknown else duration(busy), duration(idle), share]
        rows.append(tuple(row))
    head = ("instance", "domain", "runs", "steps") + (("busy", "idle", "busy") if is_timed else ())
    return _table(head, rows, len(analysis.runs) - len(rows))


def _times(times: Times) -> str:
    if _is_unknown(times):
        return 'run time: not known (no runtime="..." is given); try --set INST.runtime="1 s", or --profile RUN'
    makespan = duration(times.makespan_s)
    if not times.is_exact:
        at_most = "not known how long" if times.makespan_at_most_s is None else f"{duration(times.makespan_at_most_s)}"
        makespan = f"at least {makespan}, at most {at_most}"
    lines = [
        f"run time: {makespan}; {number(times.core_hours)} core hours; "
        f"on average {number(times.parallelism)} of the instances compute at a time"
    ]
    if times.cycle_time_s is not None:
        lines.append(f"slowest cycle: one turn takes {duration(times.cycle_time_s)}")
    if times.critical_path:
        lines.append("critical path:")
        rows = [
            (f"  {part.instance}", part.what, f"{part.count:,} x", duration(part.time_s))
            for part in _first(times.critical_path, 20)
        ]
        lines.append(_aligned(rows))
        if len(times.critical_path) > len(rows):
            lines.append(f"  and {len(times.critical_path) - len(rows):,} more parts")
    if times.unknown:
        lines.append(f"counted as 0, because nobody gives their run time: {', '.join(_first(times.unknown, 8))}")
    return "\n".join(lines)


def _is_unknown(times: Times) -> bool:
    """Whether nobody gives a run time."""
    return not any(times.busy_s.values())


def _jobs(analysis: Analysis) -> str:
    if not analysis.jobs:
        return ""
    lines = ["jobs (what must be available together):"]
    for place, job in enumerate(analysis.jobs, start=1):
        when = f"from {duration(job.starts_s)}" if job.starts_s else "at the start"
        members = ", ".join(_first(job.instances, 12)) + (", ..." if len(job.instances) > 12 else "")
        lines.append(f"  {place}. {members}: {when}, {counted(job.cores, 'core')}")
        lines += [f"     take turns, may share cores: {', '.join(group)}" for group in job.shares_cores]
    return "\n".join(lines)


def _task_graph(analysis: Analysis) -> str:
    lines = [
        f"task graph, {name}: {counted(graph.nodes, 'node')}; {graph.message_edges:,} message, "
        f"{graph.step_edges:,} step and {graph.state_edges:,} state edges"
        for name, graph in analysis.task_graph.items()
    ]
    if lines and "uncollapsed" not in analysis.task_graph:
        lines.append("task graph, uncollapsed: too large to be made")
    return "\n".join(lines)


def _count(value: int | None, at_most: bool) -> str:
    if value is None:
        return "?"
    return f"<= {value:,}" if at_most else f"{value:,}"


def _first(items: Iterable[Item], most: int | None) -> list[Item]:
    found = list(items)
    return found if most is None else found[:most]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left_out: int) -> str:
    lines = [_aligned([head, *rows])]
    if left_out:
        lines.append(f"... and {left_out:,} more (--all shows them)")
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows with their columns one under the other: words to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = [not any(cell[:1].isdigit() or cell[:2] == "<=" for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(row, widths, words, strict=True)
        ).rstrip()
        for row in rows
    )
