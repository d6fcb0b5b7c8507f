"""Attributes: W05 for unknown ones, which the schema lets pass, and E02 for impossible `run:` settings, and for those
in a namespace that was meant to be theirs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from xmml.checks.index import Index
from xmml.definitions import KINDS
from xmml.problems import Problem, did_you_mean
from xmml.run_options import belongs, is_misspelt_run, problems_of, right_namespace
from xmml.structure import KNOWN, OPEN, REQUIRED, misspelt, slot_of
from xmml.tree import RUN, XMML, XMML_PARAM, Element


def unknown_attributes(index: Index) -> Iterator[Problem]:
    """An attribute that xMML does not know is passed over when the model runs, so it is worth a warning."""
    if all(map(_has_known_attributes, _walk(index.root))):
        return
    coupled = {id(end[1]) for _, *ends in index.coupled for end in ends if end is not None}
    yield from unknown_attributes_below(index.root, coupled, index.named_ports.keys() - index.instances.keys())


def unknown_attributes_below(
    root: Element, coupled: Container[int] = (), named: Container[str] = ()
) -> Iterator[Problem]:
    """Yield a warning for each unknown attribute of an element and all below it, in a model or a parameter file.

    Those that are misspelt ones which the element lacks are told there. `coupled` are the ports that need an operator,
    `named` the instances that couplings name and that are not there.
    """
    for element in _walk(root):
        if _has_known_attributes(element):
            continue
        known = KNOWN[element.name]
        told = _told_as_missing(element, id(element) in coupled, named)
        for attribute in element.attributes:
            if not attribute.namespace and attribute.name in told:
                continue
            if is_misspelt_run(attribute.prefix, attribute.namespace):
                continue  # E02 tells
            if attribute.namespace in (XMML, XMML_PARAM) or (not attribute.namespace and attribute.name not in known):
                name, where = attribute.name, attribute.namespace
                help = _help(element, name, known) if not where else "attributes of xMML have no prefix"
                yield element.problem(
                    "W05", f'<{element.name}> has no attribute "{name}"; it has no effect', help, name, where
                )


def _help(element: Element, name: str, known: Iterable[str]) -> str:
    if belongs(name, element):
        return f'write run:{name}, and xmlns:run="{RUN}" on the root element'
    return did_you_mean(name, known, "attributes")


def _has_known_attributes(element: Element) -> bool:
    """Say whether all attributes of an element are known, or anything may stand there."""
    known = KNOWN.get(element.name)
    return known is None or (element.is_plain and element.plain.keys() <= known)


def _told_as_missing(element: Element, is_coupled: bool, named: Container[str]) -> set[str]:
    """Return the unknown attributes that are told together with what their element lacks.

    `named` are the instances that couplings name: a misspelt id of one of them is told there.
    """
    lacking = [name for name in REQUIRED.get(element.name, ()) if element.get(name) is None]
    if not lacking and not is_coupled and element.name != "instance":
        return set()
    if element.name == "instance" and all(element.get(kind) is None for kind in KINDS):
        lacking += KINDS
    if is_coupled and element.get("operator") is None:
        lacking.append("operator")
    if element.name == "instance" and (own := misspelt(element, "id")) is not None and element.get(own) in named:
        lacking.append("id")
    return {name for wanted in lacking if (name := misspelt(element, wanted)) is not None}


def run_settings(index: Index) -> Iterator[Problem]:
    """Every `run:` attribute is known, in its place, and has a possible value."""
    for element in _walk(index.root):
        if not element.is_plain:
            yield from problems_of(element)


def namespace_of_run_settings(index: Index) -> Iterator[Problem]:
    """Attributes that were meant to be `run:` settings have their namespace: else nobody would read them."""
    told: set[tuple[str, str, str]] = set()
    for element in _walk(index.root):
        for attribute in element.attributes:
            declared = element.source.file, attribute.prefix, attribute.namespace
            if declared in told or not is_misspelt_run(attribute.prefix, attribute.namespace):
                continue
            told.add(declared)
            message = f'{attribute.qualified} has no effect: "{attribute.namespace}" is not the namespace of settings'
            help = right_namespace(attribute.prefix, attribute.namespace)
            yield element.problem("E02", message, help, attribute.name, attribute.namespace)


def _walk(element: Element) -> Iterator[Element]:
    """Yield an element and all below it, but nothing inside elements with any content, and none that is unknown."""
    waiting = [element]
    while waiting:
        element = waiting.pop()
        yield element
        if element.content and element.name not in OPEN:
            known = [child for child in element.children if slot_of(element.name, child.name) is not None]
            waiting.extend(reversed(known))
