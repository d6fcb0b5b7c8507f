"""The report of a run as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from xmml_planner import Plan

from xmml_executors.deaths import deaths_in_words
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.run_result import RunResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background:
#fff; } table { border-collapse: collapse; margin: 1em 0; } th, td { padding: .25em .8em; border-bottom: 1px solid #ddd;
text-align: right; } td { white-space: nowrap; } th:first-child, td:first-child, td.text { text-align: left; }
.outcome { padding: .6em 1em; border-left: .4em solid #2a7; background: #f4f8f5; }
.outcome.bad { border-color: #c33; background: #faf3f3; } .bar {
background: #69c; height: .8em; border-radius: 2px; } @media (prefers-color-scheme: dark) { body { color: #ddd;
background: #181818; } .outcome, .outcome.bad { background: #222; } th, td { border-color: #444; } }
"""

#: The page holds names and words that others have chosen: whatever they are, it loads and executes nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def report(plan: Plan, result: RunResult, name: str, provenance: Mapping[str, object]) -> str:
    """Return the page: the outcome, what each instance did, and how the conduits travelled."""
    outcome = result.outcome
    verdict = (
        f"done in {seconds(result.wall_s)}"
        if outcome.is_done
        else f"{outcome.exit_status.word} after {seconds(result.wall_s)}: {outcome.reason}"
    )
    when = f"{name}, started {provenance['started']} on {provenance['host']}"
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{html.escape(name)}</title><style>{_STYLE}</style><h1>{html.escape(plan.model)}</h1>",
        f'<p class="outcome{"" if outcome.is_done else " bad"}">{html.escape(verdict)}</p>',
        f"<p>{html.escape(when)}</p>",
        "<h2>Instances</h2>",
        _instances(list(result.records.values())),
        *(f"<p>{html.escape(death)}.</p>" for death in deaths_in_words(result.records, outcome.instance)),
        f"<p>Not bound to cores: {html.escape(result.not_bound)}.</p>" if result.not_bound else "",
        "<h2>Conduits</h2>" if plan.conduits else "",
        _conduits(plan, result.records),
        '<p><a href="events.jsonl">events</a> <a href="plan.json">plan</a> <a href="provenance.json">provenance</a> '
        '<a href="profile.json">profile</a> (opens in <a href="https://ui.perfetto.dev">Perfetto</a>) '
        '<a href="model.xmml">model</a></p></html>',
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _instances(records: Sequence[InstanceRecord]) -> str:
    longest = max((record.wall_s or 0.0 for record in records), default=0.0) or 1.0
    head = (
        "instance",
        "state",
        "host",
        "bound to CPUs",
        "runs",
        "messages sent",
        "received",
        "bytes sent",
        "received",
        "wall",
        "CPU",
        "memory",
        "",
    )
    rows = []
    for record in records:
        wall = record.wall_s
        link = f'<a href="instances/{html.escape(record.name, quote=True)}/">{html.escape(record.name)}</a>'
        bar = f'<div class="bar" style="width:{8 * (wall or 0.0) / longest:.2f}em"></div>'
        cells = (
            link,
            record.state.value,
            html.escape(record.host) or "-",
            html.escape(record.cpus) or "-",
            f"{record.runs:,}",
            f"{record.messages_sent:,}",
            f"{record.messages_received:,}",
            size(record.bytes_sent),
            size(record.bytes_received),
            seconds(wall) if wall is not None else "-",
            seconds(record.cpu_s),
            size(record.memory_bytes),
            bar,
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return _table(head, rows)


def _conduits(plan: Plan, records: Mapping[str, InstanceRecord]) -> str:
    if not plan.conduits:
        return ""
    rows = []
    for conduit in plan.conduits:
        filters = ", ".join(each.name for each in (*conduit.sender_filters, *conduit.receiver_filters))
        room = str(conduit.capacity)
        if conduit.pool is not None:
            pool = conduit.pool
            replaced = records[conduit.sender].replaced.get(conduit.id, "")
            room = f"{pool.noun}, {replaced if pool.is_latest else f'at most {size(conduit.byte_budget)}'}".rstrip(", ")
            filters = pool.select
        method = records[conduit.sender].methods.get(conduit.id, "-")
        cells = (html.escape(conduit.name), html.escape(method), room, html.escape(filters))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return _table(("conduit", "method", "capacity", "filters, selector"), rows)


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    return "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>\n" + "\n".join(rows) + "\n</table>"


def size(number: int) -> str:
    """Return a number of bytes for people: `1.5 MB`.

    >>> size(0), size(999), size(1_500_000)
    ('0 B', '999 B', '1.5 MB')
    """
    value, units = float(number), ["B", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.3g} {units[0]}"


def seconds(number: float) -> str:
    """Return a duration for people.

    >>> seconds(0.0123), seconds(3.14159), seconds(75), seconds(7322)
    ('12 ms', '3.1 s', '1 min 15 s', '2 h 2 min')
    """
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
