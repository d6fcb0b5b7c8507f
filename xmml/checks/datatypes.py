"""Datatypes: E13 for extensions of nothing or of themselves, W01 for messages of a type that is not expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xmml.checks.index import Index
from xmml.checks.pools import is_pool
from xmml.problems import Problem

#: So far it is followed what a datatype extends.
_LONGEST_CHAIN = 1000


def extension(index: Index) -> Iterator[Problem]:
    """A datatype extends a datatype that is defined, and never itself in the end."""
    extends = {name: element.get("extends") for name, element in index.datatypes.items()}
    for name, element in index.datatypes.items():
        base = extends[name]
        if base is not None and base not in extends and not index.is_told("datatype", base, extends):
            help = index.spelling.hint(base, set(extends) - {name}, "datatypes")
            yield element.problem(
                "E13", f'the datatype "{name}" extends "{base}", which does not exist', help, "extends"
            )
    for chain in _circles(extends):
        circle = " extends ".join(f'"{each}"' for each in [*chain, chain[0]])
        yield index.datatypes[chain[0]].problem(
            "E13", f"datatypes extend each other in a circle: {circle}", "remove one extends", "extends"
        )


def _circles(extends: Mapping[str, str | None]) -> Iterator[list[str]]:
    """Yield every circle, beginning with the name that comes first. Linear: each name is looked at once."""
    rank = {name: number for number, name in enumerate(extends)}
    walk_of: dict[str, int] = {}
    for number, name in enumerate(extends):
        walk: list[str] = []
        each: str | None = name
        while each is not None and each in extends and each not in walk_of:
            walk_of[each] = number
            walk.append(each)
            each = extends[each]
        if each is not None and walk_of.get(each) == number:
            circle = walk[walk.index(each) :]
            first = circle.index(min(circle, key=rank.__getitem__))
            yield circle[first:] + circle[:first]


def fitting_datatypes(index: Index) -> Iterator[Problem]:
    """What a port sends, after the filters, is what the other takes, or extends it: it then contains all of it."""
    bases = {name: element.get("extends") for name, element in index.datatypes.items()}
    for coupling, sender, receiver in index.coupled:
        if sender is None or receiver is None:
            continue
        sent: str | None = sender[1].get("datatype")
        origin = f"{coupling.get('from')} sends"
        for apply in coupling.named("apply"):
            element = index.filters.get(apply.get("filter") or "")
            if element is None:
                sent = None
                continue
            taken = element.get("datatype_in")
            if not _accepts(taken, sent, bases):
                help = "give this filter another place or another datatype_in, or convert the messages before it"
                message = f'{origin} "{sent}", but the filter "{element.get("id")}" takes "{taken}"'
                yield apply.problem("W01", message, help, "filter")
                sent = None
            given = element.get("datatype_out")
            if given is not None:
                sent, origin = given, f'the filter "{element.get("id")}" gives'
        expected = receiver[1].get("datatype")
        if not _accepts(expected, sent, bases):
            message = f'{origin} "{sent}", but {coupling.get("to")} takes "{expected}"'
            by_filter = ", or convert it with a filter that has datatype_in and datatype_out"
            help = f'give both the same datatype, let "{sent}" extend "{expected}" if it holds all that this has'
            yield coupling.problem("W01", message, help + ("" if is_pool(coupling) else by_filter), "to")


def _accepts(expected: str | None, given: str | None, bases: Mapping[str, str | None]) -> bool:
    """Say whether `given` is or extends `expected`; what is not known is not held against anybody."""
    if expected is None or given is None or expected not in bases:
        return True
    seen: set[str] = set()
    each: str | None = given
    while each is not None and each not in seen and len(seen) < _LONGEST_CHAIN:
        if each == expected or each not in bases:
            return True
        seen.add(each)
        each = bases[each]
    return each is not None
