"""W19: waits for the newest message of somebody who may wait for the receiver."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.checks.pools import is_latest, is_pool
from xmml.problems import Problem
from xmml.run_options import settings_of
from xmml.tree import Element


def waits_in_circles(index: Index) -> Iterator[Problem]:
    """Where no chain of waits leads from the sender of a latest coupling back to its receiver, that cannot be part of a
    deadlock. Where one does, nobody can tell: how often the receiver finds something new depends on speeds."""
    latest = [each for each in index.coupled if is_latest(each[0])]
    if not latest:
        return
    waits: dict[str, dict[str, Element]] = {}
    for coupling, sender, receiver in index.coupled:
        if sender is None or receiver is None:
            continue
        writer, reader = sender[0].id or "", receiver[0].id or ""
        waits.setdefault(reader, {}).setdefault(writer, coupling)
        # The writer leaves when its objects are dealt with; others wait for room, which grows.
        if _has_backlog(coupling):
            waits.setdefault(writer, {}).setdefault(reader, coupling)
    for coupling, sender, receiver in latest:
        if sender is None or receiver is None:
            continue
        writer, reader = sender[0].id or "", receiver[0].id or ""
        chain = _chain(waits, writer, reader)
        if chain is None:
            continue
        steps = [f"{waiter} for {other} (line {via.position.line})" for waiter, other, via in chain]
        message = f"{reader} may wait for a newer message of {writer}"
        message += f", and {', '.join(steps)}" if steps else ", which is itself"
        help = f"if that can stop the run, let {reader} receive with a time limit, and go on with what it has"
        yield coupling.problem("W19", message, help, "to")


def _has_backlog(coupling: Element) -> bool:
    if not is_pool(coupling) or is_latest(coupling):
        return False
    settings = settings_of(coupling)
    return settings.get("share") == "queue" or settings.get("loss") == "allowed"


def _chain(waits: dict[str, dict[str, Element]], first: str, last: str) -> list[tuple[str, str, Element]] | None:
    """Return a shortest chain of waits from one instance to another, or `None` if there is none."""
    came_by: dict[str, tuple[str, Element] | None] = {first: None}
    queue = deque([first])
    while queue and last not in came_by:
        waiter = queue.popleft()
        for other, via in waits.get(waiter, {}).items():
            if other not in came_by:
                came_by[other] = (waiter, via)
                queue.append(other)
    if last not in came_by:
        return None
    chain = []
    at = last
    while (step := came_by[at]) is not None:
        chain.append((step[0], at, step[1]))
        at = step[0]
    return chain[::-1]
