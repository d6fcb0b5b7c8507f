"""Measured links back into a `sites.toml`; everything else in it, comments included, stays as it is."""

from __future__ import annotations

from collections.abc import Iterable

import tomlkit
from tomlkit.items import AoT, Table

from xmml_sites.check.report import LinkReport


def with_links(text: str, links: Iterable[LinkReport]) -> str:
    """The text of a file of sites with the latency and the bandwidth that were measured; new links stand at its end."""
    document = tomlkit.parse(text)
    tables = document.get("link")
    rows: list[Table] = list(tables) if isinstance(tables, AoT) else []
    by_pair = {frozenset(str(name) for name in row["between"]): row for row in rows if "between" in row}
    for link in links:
        if link.latency_s is None or link.bandwidth is None:
            continue
        row = by_pair.get(frozenset(link.between))
        if row is None:
            row = tomlkit.table()
            row["between"] = list(link.between)
            if not isinstance(tables, AoT):
                tables = tomlkit.aot()
                document["link"] = tables
                tables = document["link"]
            tables.append(row)
        for key, value in (("latency", _latency(link.latency_s)), ("bandwidth", _bandwidth(link.bandwidth))):
            _set(row, key, value)
    return tomlkit.dumps(document)


def _set(row: Table, key: str, value: str) -> None:
    """Change a value and keep the comment behind it."""
    comment = row[key].trivia.comment if key in row else ""
    row[key] = value
    if comment:
        row[key].comment(comment.lstrip("# "))


def _latency(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"


def _bandwidth(bytes_per_s: float) -> str:
    bits = bytes_per_s * 8
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.3g} Mbit/s"
