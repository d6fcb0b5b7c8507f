"""Scales: W02 couplings that do not fit the time scales of their ends."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.analysis.scale_relations import fitting_templates, is_same, is_slower, relation
from xmml.analysis.templates import Template, Way
from xmml.checks.model.subject import Subject
from xmml.model import Instance
from xmml.problems import Problem
from xmml.scales import Range, Scale

_DOES = {"interact": "interacts with", "call": "calls", "release": "releases", "dispatch": "dispatches"}


def templates_fit_scales(subject: Subject) -> Iterator[Problem]:
    """Submodels of one time scale interact, the slow one of two calls the fast one, and the fast one releases it."""
    told: set[tuple[str, str, str]] = set()
    kinds: dict[Scale | None, int] = {}  # many instances, few different scales
    kind = {one.id: kinds.setdefault(one.timescale, len(kinds)) for one in subject.model.instances.values()}
    known: dict[tuple[int, int], frozenset[Template] | None] = {}
    for way in subject.ways:
        sender = subject.model.instances[way.sender.instance]
        receiver = subject.model.instances[way.receiver.instance]
        scales = (kind[sender.id], kind[receiver.id])
        if scales not in known:
            known[scales] = fitting_templates(sender.timescale, receiver.timescale)
        fitting = known[scales]
        key = (sender.id, receiver.id, way.template)
        if sender is receiver or fitting is None or way.template in fitting or key in told:
            continue
        told.add(key)
        yield _problem(subject, way, sender, receiver)


def _problem(subject: Subject, way: Way, sender: Instance, receiver: Instance) -> Problem:
    through = ""
    if len(way.couplings) > 1:
        mappers = [subject.model.couplings[number].receiver.instance for number in way.couplings[:-1]]
        through = f" (through {', '.join(mappers)})"
    lie = relation(sender.timescale, receiver.timescale)
    same = is_same(sender.timescale, receiver.timescale)
    scales = "have the same time scale" if same else f"have {lie} time scales"
    message = (
        f'"{sender.id}" {_DOES[way.template]} "{receiver.id}"{through}, although they {scales}: '
        f"{_extent(sender)}, {_extent(receiver)}"
    )
    if lie == "overlapping" or same:
        help = "submodels of overlapping time scales interact: from Oi to S or B, both ways"
        if way.template in ("call", "release") and not same:
            caller, called = (sender, receiver) if way.template == "call" else (receiver, sender)
            help += (
                f'; to be called in a step of "{caller.id}", "{called.id}" has to end within it: total at most delta'
            )
    else:
        slow, fast = (sender, receiver) if _is_slower(sender, receiver) else (receiver, sender)
        help = (
            f'let the slow one, "{slow.id}", call the fast one (from Oi to finit), and "{fast.id}" release it (from Of '
            "to S or B)"
        )
    return subject.at_coupling(way.couplings[0], "W02", message, help, "from")


def _is_slower(sender: Instance, receiver: Instance) -> bool:
    first, second = sender.timescale, receiver.timescale
    return first is not None and second is not None and is_slower(first, second) is True


def _extent(instance: Instance) -> str:
    scale = instance.timescale
    delta, total = (None, None) if scale is None else (scale.delta, scale.total)
    return f'"{instance.id}" takes steps of {_text(delta)} up to {_text(total)}'


def _text(range_: Range | None) -> str:
    if range_ is None:
        return "an unknown time"
    low, high = (None if end is None else _duration(float(end)) for end in (range_.min, range_.max))
    return low or "?" if range_.is_regular else f"{low or '?'} to {high or '?'}"


_UNITS = (
    ("yr", 31536000.0),
    ("days", 86400.0),
    ("hr", 3600.0),
    ("min", 60.0),
    ("s", 1.0),
    ("ms", 1e-3),
    ("us", 1e-6),
    ("ns", 1e-9),
)


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it is at least one."""
    unit, factor = next((each for each in _UNITS if seconds >= each[1]), ("s", 1.0))
    return f"{seconds / factor:.4g} {unit}"
