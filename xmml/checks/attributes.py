"""Attributes: W05 for unknown ones, which the schema lets pass, and E02 for impossible `run:` settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from difflib import get_close_matches

from xmml.checks.index import Index
from xmml.definitions import KINDS
from xmml.problems import Problem, did_you_mean
from xmml.run_options import problems_of
from xmml.structure import OPEN, REQUIRED
from xmml.tree import RUN, XMML, XMML_PARAM, Element

_DEFINITION = "id class version"
_SCALE = "id delta total characteristic"

#: The attributes of every element of models and parameter files; a test holds this against the schemas.
KNOWN: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "model": "id name version xmml_version",
        "definitions": "",
        "datatype": "id class version size_estimate extends",
        "filter": f"{_DEFINITION} datatype_in datatype_out type dimension factor",
        "terminal": f"{_DEFINITION} init interactive type",
        "mapper": f"{_DEFINITION} init interactive type",
        "submodel": f"{_DEFINITION} init interactive name type stateful",
        "timescale": _SCALE,
        "spacescale": f"{_SCALE} dimensions",
        "otherscale": f"{_SCALE} dimensions type",
        "delta": "type min max",
        "total": "type min max",
        "param": "id value",
        "in": "id operator datatype type",
        "out": "id operator datatype type",
        "topology": "",
        "instance": "id submodel mapper terminal domain init interactive stateful multiplicity",
        "coupling": "name from to size interactive",
        "apply": "filter factor",
        "implementation": "size runtime memory cores language path",
        "interpreter": "name path version flags",
        "platform": "arch os preferred",
        "library": "name path",
        "code": "language version part compiler compilerflags",
        "parameters": "id version name xmml_version",
        "parameterGroup": "id submodel mapper filter instance domain",
        "include": "parameterGroup",
    }.items()
}


def unknown_attributes(index: Index) -> Iterator[Problem]:
    """An attribute that xMML does not know is passed over when the model runs, so it is worth a warning."""
    coupled = {id(end[1]) for _, *ends in index.coupled for end in ends if end is not None}
    yield from unknown_attributes_below(index.root, coupled)


def unknown_attributes_below(root: Element, coupled: Set[int] = frozenset()) -> Iterator[Problem]:
    """Yield a warning for each unknown attribute of an element and all below it, in a model or a parameter file.

    Those that are misspelt ones which the element lacks are told there. `coupled` are the ports that need an operator.
    """
    for element in _walk(root):
        known = KNOWN.get(element.name)
        if known is None or (element.is_plain and element.plain.keys() <= known):
            continue
        told = _told_as_missing(element, id(element) in coupled)
        for attribute in element.attributes:
            if not attribute.namespace and attribute.name in told:
                continue
            if attribute.namespace in (XMML, XMML_PARAM) or (not attribute.namespace and attribute.name not in known):
                name, where = attribute.name, attribute.namespace
                help = did_you_mean(name, known, "attributes") if not where else "attributes of xMML have no prefix"
                yield element.problem(
                    "W05", f'<{element.name}> has no attribute "{name}"; it has no effect', help, name, where
                )


def misspelt(element: Element, wanted: str) -> str | None:
    """Return the unknown attribute of an element that was probably meant to be `wanted`, which it lacks."""
    known = KNOWN.get(element.name, frozenset())
    for attribute in element.attributes:
        if attribute.namespace or attribute.name in known:
            continue
        close = get_close_matches(attribute.name.lower(), known, n=1, cutoff=0.6)
        if close == [wanted] or {attribute.name, wanted} == {"form", "from"}:
            return attribute.name
    return None


def _told_as_missing(element: Element, is_coupled: bool) -> set[str]:
    """Return the unknown attributes that are told together with what their element lacks."""
    lacking = [name for name in REQUIRED.get(element.name, ()) if element.get(name) is None]
    if not lacking and not is_coupled and element.name != "instance":
        return set()
    if element.name == "instance" and all(element.get(kind) is None for kind in KINDS):
        lacking += KINDS
    if is_coupled and element.get("operator") is None:
        lacking.append("operator")
    return {name for wanted in lacking if (name := misspelt(element, wanted)) is not None}


def run_settings(index: Index) -> Iterator[Problem]:
    """Every `run:` attribute is known, in its place, and has a possible value."""
    for element in _walk(index.root):
        if not element.is_plain:
            yield from problems_of(element)
        if element.namespace == RUN:
            yield element.problem(
                "E02", f"there is no element run:{element.name} here", "settings are attributes, such as run:args"
            )


def _walk(element: Element) -> Iterator[Element]:
    """Yield an element and all below it, but nothing inside elements with any content."""
    waiting = [element]
    while waiting:
        element = waiting.pop()
        yield element
        if element.content and element.name not in OPEN:
            waiting.extend(reversed(element.children))
