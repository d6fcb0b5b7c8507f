"""Validation against the structure of xMML 0.4: what is wrong with elements and attributes, in words, all in one pass.

Ids and references are left to the checks, and so are quantities: they know more about them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice

from xmml.model import OPERATORS
from xmml.problems import MOST_PROBLEMS, Problem, did_you_mean
from xmml.run_options import is_misspelt_run, right_namespace
from xmml.structure import CHILDREN, KNOWN, OPEN, REQUIRED, Slot, misspelt, namespace_of, parents_of, slot_of, values_of
from xmml.tree import RUN, XMML, XMML_PARAM, Element

#: What to write where an element is missing.
_TO_ADD = {
    "timescale": '<timescale delta="1 s" total="1 min"/> (the length of a step, and of a whole run)',
    "ports": '<ports> with an <in id="..." operator="..."/> or <out .../> for each way messages come and go',
    "definitions": "<definitions> with the submodels",
    "topology": "<topology> with the instances and couplings",
}


#: Elements that lack something if they are empty.
_WITH_CHILDREN = frozenset(name for name, slots in CHILDREN.items() if any(slot.least for slot in slots))


def validate(root: Element) -> list[Problem]:
    """Return what is wrong with the structure of a document."""
    return list(islice(_problems_of(root), MOST_PROBLEMS))


def is_known(parent: Element, child: Element) -> bool:
    """Say whether an element may stand below another, in whatever order."""
    return slot_of(parent.name, child.name) is not None and child.namespace == namespace_of(child.name)


def _problems_of(element: Element) -> Iterator[Problem]:
    yield from _attributes(element)
    if element.name in OPEN:
        return
    if element.content:
        yield from _text(element)
    elif element.name not in _WITH_CHILDREN:
        return
    yield from _children(element)
    for child in element.children:
        if is_known(element, child):
            yield from _problems_of(child)


def _attributes(element: Element) -> Iterator[Problem]:
    for name in REQUIRED.get(element.name, ()):
        if element.get(name) is not None:
            continue
        expected = values_of(element.name, name)
        similar = misspelt(element, name)
        message = f'<{element.name}> lacks the attribute {name}="..."'
        if similar is not None:
            yield element.problem("E02", message, f'it has "{similar}": did you mean "{name}"?', similar)
        else:
            words = f"one of {', '.join(expected.words)}" if expected and expected.words else ""
            yield element.problem("E02", message, words or (expected.expected if expected else ""))
    if element.name == "ports":
        for attribute in element.attributes:
            yield element.problem(
                "E02", f'<ports> has no attribute "{attribute.name}"', "remove it", attribute.name, attribute.namespace
            )
    for attribute in element.attributes:
        if attribute.namespace or attribute.name not in KNOWN.get(element.name, ()):
            continue
        values = values_of(element.name, attribute.name)
        if values is None or values.fits(attribute.value):
            continue
        message = f'{attribute.name}="{attribute.value}" is not possible on <{element.name}>'
        known = values.words
        if attribute.name == "operator":
            known = tuple(word for word in known if OPERATORS[word] == element.name)
        help = did_you_mean(attribute.value, known, "values") if known else values.expected
        if element.name == "coupling" and attribute.value.count(".") > 1:
            help += "; an instance or port that is to be coupled needs an id without dots"
        yield element.problem("E02", message, help, attribute.name)


def _text(element: Element) -> Iterator[Problem]:
    text = element.text().strip()
    if text:
        piece = text if len(text) <= 40 else f"{text[:40]}..."
        yield element.problem(
            "E02", f'<{element.name}> cannot hold text: "{piece}"', "remove it, or make it a comment: <!-- ... -->"
        )


def _children(element: Element) -> Iterator[Problem]:
    """Tell children that are unknown, too many, out of order or missing."""
    slots = CHILDREN[element.name]
    known: list[tuple[int, Element]] = []
    unknown: list[Element] = []
    for child in element.children:
        place = slot_of(element.name, child.name)
        if place is None or child.namespace != namespace_of(child.name):
            unknown.append(child)
        else:
            known.append((place, child))
    strays: set[str] = set()
    for child in unknown:
        home = _home(child)
        if home is None or home not in strays:
            yield _unknown(element, child)
        strays.update([home] if home is not None else [])
    first: dict[str, Element] = {}
    told: set[str] = set()
    before: tuple[int, Element] | None = None
    for place, child in known:
        slot = slots[place]
        if child.name in first and slot.most == 1 and child.name not in told:
            told.add(child.name)
            line = first[child.name].position.line
            message = f"<{element.name}> has a second <{child.name}>"
            yield child.problem("E02", message, "remove one of them", note=f"the first one is in line {line}")
        first.setdefault(child.name, child)
        if before is None or place >= before[0]:
            before = place, child
        elif child.name not in told:
            told.add(child.name)
            later = next(each for at, each in known if at > place)
            line = later.position.line
            message = f"<{child.name}> must stand before <{later.name}> (line {line})"
            yield child.problem("E02", message, f"the order in <{element.name}> is: {_order(slots)}")
    for place, slot in enumerate(slots):
        if slot.least and slot.names[0] not in first and not _stands_for(slot.names[0], unknown):
            yield _missing(element, slot.names[0], next((each for at, each in known if at > place), None))


def _unknown(parent: Element, child: Element) -> Problem:
    name = child.name
    here = [each for slot in CHILDREN[parent.name] for each in slot.names]
    if child.namespace not in (XMML, XMML_PARAM):
        qualified = f"{child.prefix}:{name}" if child.prefix else name
        if child.namespace:
            message = f"<{qualified}> is no element of xMML, and cannot stand in <{parent.name}>"
            help = "elements of other namespaces belong into <extra>"
            if child.namespace == RUN:
                help = "settings are attributes, such as run:args"
            elif is_misspelt_run(child.prefix, child.namespace):
                help = f"settings are attributes, such as run:args; {right_namespace(child.prefix, child.namespace)}"
            return child.problem("E02", message, help)
        return child.problem("E02", f"<{qualified}> is in no namespace", "elements of xMML have that of <model>")
    elsewhere = parents_of(name)
    if name in CHILDREN or name in OPEN:
        if slot_of(parent.name, name) is not None:
            return child.problem("E02", f"<{name}> is in a wrong namespace here", f'it has "{namespace_of(name)}"')
        places = " or ".join(f"<{each}>" for each in elsewhere)
        help = f"it belongs into {places}" if places else "it is the root of a document"
        if slot_of(parent.name, elsewhere[0] if elsewhere else "") is not None and parent.first(elsewhere[0]) is None:
            help = f"put {places} ... </{elsewhere[0]}> around it and its like"
        return child.problem("E02", f"<{name}> cannot stand in <{parent.name}>", help)
    suggestion = did_you_mean(name, here)
    help = (
        suggestion
        if suggestion.startswith("did you mean")
        else f"the elements in <{parent.name}> are: {_order(CHILDREN[parent.name])}"
    )
    return child.problem("E02", f"there is no element <{name}> in xMML", help if here else "remove it")


def _missing(parent: Element, name: str, next_: Element | None) -> Problem:
    what = f'the {parent.name} "{parent.get("id")}"' if parent.get("id") else f"<{parent.name}>"
    where = f"before <{next_.name}> (line {next_.position.line})" if next_ is not None else f"to <{parent.name}>"
    return parent.problem("E02", f"{what} has no <{name}>", f"add {_TO_ADD.get(name, f'<{name}>')} {where}")


def _home(stray: Element) -> str | None:
    """Return the one element that a known element belongs into; `None` if there are several, or it is not known."""
    parents = parents_of(stray.name) if stray.namespace in (XMML, XMML_PARAM) else []
    return parents[0] if len(parents) == 1 else None


def _stands_for(name: str, unknown: list[Element]) -> bool:
    """Say whether one of some unknown elements is probably a misspelt one of that name, or should stand in one."""
    if any(_home(child) == name for child in unknown):
        return True
    return any(difflib.get_close_matches(child.name.lower(), [name], cutoff=0.6) for child in unknown)


def _order(slots: tuple[Slot, ...]) -> str:
    return ", ".join(" or ".join(f"<{name}>" for name in slot.names) for slot in slots) or "none"
