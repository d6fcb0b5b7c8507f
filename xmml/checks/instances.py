"""Instances: E03 for their kind, E18 for what mappers and terminals cannot have, E22 for copies there are not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.definitions import KINDS, positive_integer
from xmml.problems import Problem
from xmml.structure import misspelt
from xmml.tree import RUN, Element


def one_kind_each(index: Index) -> Iterator[Problem]:
    """An instance names exactly one submodel, mapper or terminal."""
    for element in index.instance_elements:
        named = [kind for kind in KINDS if element.get(kind) is not None]
        name = f' "{element.get("id")}"' if element.get("id") else ""
        if not named:
            message = f"the instance{name} does not say what it is an instance of"
            similar = next(((kind, found) for kind in KINDS if (found := misspelt(element, kind)) is not None), None)
            if similar is not None:
                help = f'it has "{similar[1]}": did you mean "{similar[0]}"?'
                yield element.problem("E03", message, help, similar[1])
            else:
                yield element.problem("E03", message, 'add submodel="...", mapper="..." or terminal="..."')
        elif len(named) > 1:
            both = " and a ".join(named)
            yield element.problem("E03", f"the instance{name} names a {both}", "keep one of them", named[1])


def single_copies(index: Index) -> Iterator[Problem]:
    """Parameters of single copies, `<run:copy index="3" param="x" value="2"/>` in `extra`, are for copies there are."""
    for entry in index.entries:
        for extra in entry.element.named("extra"):
            for element in extra.children:
                if element.namespace == RUN:
                    yield from _copy(entry.element, element)


def _copy(instance: Element, element: Element) -> Iterator[Problem]:
    if element.name != "copy":
        help = 'for example <run:copy index="3" param="x" value="2"/>'
        yield element.problem("E02", f"there is no element run:{element.name}", help)
        return
    for name in ("index", "param", "value"):
        if element.get(name) is None:
            yield element.problem("E02", f'<run:copy> lacks the attribute {name}="..."')
    number = element.get("index")
    if number is None:
        return
    if not re.fullmatch(r"[0-9]{1,9}", number):
        yield element.problem("E02", f'index="{number}" is not possible on <run:copy>', "copies count from 0", "index")
        return
    copies = (instance.get("multiplicity") or "1").strip()
    count = positive_integer(copies)
    if count is not None and int(number) >= count:
        has = f"copies 0 to {count - 1}" if count > 1 else "one copy, 0"
        yield element.problem("E22", f"there is no copy {number}", f"the instance has {has}", "index")


def multiplicity_and_state(index: Index) -> Iterator[Problem]:
    """Only submodels have copies and keep state between runs."""
    for entry in index.entries:
        if entry.kind not in ("mapper", "terminal"):
            continue
        copies = (entry.element.get("multiplicity") or "1").strip()
        if copies == "dynamic" or (positive_integer(copies) or 1) > 1:
            help = "only instances of submodels have copies; remove multiplicity"
            yield entry.element.problem("E18", f"a {entry.kind} cannot have a multiplicity", help, "multiplicity")
        if entry.element.get("stateful") in ("yes", "optional"):
            help = "only submodels keep state between runs; remove stateful"
            yield entry.element.problem("E18", f"a {entry.kind} cannot be stateful", help, "stateful")
