"""What stands where in xMML 0.4 documents: the elements, their children in order, and the values of their attributes.

The same as `xmml.xsd` and `xmml-param.xsd` say, as tables that know what to tell a person; a test holds the two against
each other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import lru_cache

from xmml.definitions import positive_integer
from xmml.late_dataclass import dataclass
from xmml.tree import XMML, XMML_PARAM, Element


@dataclass(frozen=True)
class Slot:
    """Elements that may stand at one place among the children of another, and how many of them."""

    names: tuple[str, ...]
    least: int = 0
    most: int | None = None


def _one(name: str) -> Slot:
    return Slot((name,), 1, 1)


def _maybe(name: str) -> Slot:
    return Slot((name,), 0, 1)


def _any_number(*names: str) -> Slot:
    return Slot(names)


_PORTED = (_any_number("param"), _one("ports"), _maybe("implementation"), _any_number("extra"))
_RANGES = (_maybe("delta"), _maybe("total"))
_PARAMETERS = (_maybe("description"), _any_number("param", "parameterGroup", "include", "extra"))

#: The children of every element in their order; elements that are not here may hold anything.
CHILDREN: Mapping[str, tuple[Slot, ...]] = {
    "model": (_maybe("description"), _one("definitions"), _one("topology")),
    "definitions": (_any_number("datatype"), _any_number("submodel", "mapper", "terminal", "filter")),
    "datatype": (_maybe("description"), _any_number("extra")),
    "filter": (_maybe("description"), _any_number("param"), _maybe("implementation"), _any_number("extra")),
    "terminal": (_maybe("description"), *_PORTED),
    "mapper": (_maybe("description"), *_PORTED),
    "submodel": (
        _maybe("description"),
        _one("timescale"),
        _any_number("spacescale"),
        _any_number("otherscale"),
        *_PORTED,
    ),
    "timescale": _RANGES,
    "spacescale": _RANGES,
    "otherscale": _RANGES,
    "delta": (),
    "total": (),
    "param": (_maybe("description"),),
    "ports": (_any_number("in", "out"),),
    "in": (),
    "out": (),
    "implementation": (
        _any_number("interpreter"),
        _any_number("platform"),
        _any_number("library"),
        _any_number("code"),
    ),
    "interpreter": (),
    "platform": (),
    "library": (),
    "topology": (_any_number("instance"), _any_number("coupling")),
    "instance": (
        _maybe("timescale"),
        _any_number("spacescale"),
        _any_number("otherscale"),
        _any_number("param"),
        _any_number("extra"),
    ),
    "coupling": (_any_number("apply"), _any_number("extra")),
    "apply": (_any_number("param"), _any_number("extra")),
    "parameters": _PARAMETERS,
    "parameterGroup": _PARAMETERS,
    "include": (),
}

#: Elements with any attributes and any content.
OPEN = frozenset({"description", "extra", "code"})

#: The elements of parameter files that are not of models.
_OF_PARAMETER_FILES = frozenset({"parameters", "parameterGroup", "include"})

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

#: The attributes that an element cannot do without.
REQUIRED: Mapping[str, tuple[str, ...]] = {
    "model": ("id",),
    "datatype": ("id",),
    "filter": ("id", "type"),
    "terminal": ("id", "type"),
    "mapper": ("id", "type"),
    "submodel": ("id",),
    "param": ("id", "value"),
    "in": ("id",),
    "out": ("id",),
    "platform": ("os",),
    "library": ("name",),
    "code": ("language",),
    "coupling": ("from", "to"),
    "apply": ("filter",),
    "parameters": ("id",),
}


@dataclass(frozen=True)
class Values:
    """What an attribute may be: one of some words, or whatever `fits`; `expected` says it to a person."""

    fits: Callable[[str], object]
    expected: str = ""
    words: tuple[str, ...] = ()


def _words(*words: str) -> Values:
    return Values(words.__contains__, "", words)


def _is_word(text: str) -> bool:
    """Say whether a text is one or more letters, digits, dashes and connectors, as in ids within couplings."""
    return bool(text) and all(
        character in "_-" or character.isalnum() or unicodedata.category(character) in _WORD for character in text
    )


_WORD = ("Pc", "Pd", "Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl", "No")
_NAME = re.compile(r"[^\W\d][\w.\-\u00b7\u0300-\u036f\u203f\u2040]*")

_ID = Values(_NAME.fullmatch, "an id begins with a letter or _ and has letters, digits, _ - and . only")
_YES_NO = _words("yes", "no")
_OPTIONAL = _words("yes", "no", "optional")
_COUNT = Values(positive_integer, "write a positive whole number")
_DOMAIN = Values(
    lambda text: all(map(_is_word, text.split("."))),
    'a domain is a path of words with dots between them, such as "artery.tissue"',
)


#: Nearly every end of a coupling.
_PLAIN_END = re.compile(r"[\w-]+\.[\w-]+")


def _end(example: str) -> Values:
    def fits(text: str) -> bool:
        if _PLAIN_END.fullmatch(text):
            return True
        words = text.split(".")
        return len(words) == 2 and all(map(_is_word, words))

    return Values(fits, f"write INSTANCE.PORT with exactly one dot, such as {example}")


#: Attributes with the same values wherever they stand.
_EVERYWHERE: Mapping[str, Values] = {
    "id": _ID,
    "init": _YES_NO,
    "interactive": _OPTIONAL,
    "stateful": _OPTIONAL,
    "preferred": _YES_NO,
    "operator": _words("finit", "Oi", "S", "B", "Of"),
    "datatype": _ID,
    "datatype_in": _ID,
    "datatype_out": _ID,
    "dimensions": _COUNT,
    "submodel": _ID,
    "mapper": _ID,
    "terminal": _ID,
    "instance": _ID,
    "domain": _DOMAIN,
    "parameterGroup": _ID,
    "xmml_version": Values("0.4".__eq__, "this program reads xMML 0.4"),
    "from": _end('from="macro.state"'),
    "to": _end('to="micro.start"'),
    "multiplicity": Values(
        lambda text: text.strip() == "dynamic" or positive_integer(text), 'write a positive whole number, or "dynamic"'
    ),
    "filter": _ID,
}
_PORT_TYPE, _RANGE_TYPE = _words("state", "normal"), _words("variable", "fixed")
_TYPES: Mapping[str, Values] = {
    "filter": _words("interpolation", "reduction", "converter"),
    "terminal": _words("source", "sink"),
    "mapper": _words("fan-in", "fan-out", "fan-in-out"),
    "in": _PORT_TYPE,
    "out": _PORT_TYPE,
    "delta": _RANGE_TYPE,
    "total": _RANGE_TYPE,
}


@lru_cache(maxsize=4096)
def values_of(element: str, attribute: str) -> Values | None:
    """Return what an attribute of an element may be; `None` if anything, or if a check reads it (quantities)."""
    if attribute == "type":
        return _TYPES.get(element)
    if element == "parameterGroup" and attribute == "domain":
        return _ID
    return _EVERYWHERE.get(attribute)


def namespace_of(name: str) -> str:
    """Return the namespace of an element of xMML."""
    return XMML_PARAM if name in _OF_PARAMETER_FILES else XMML


@lru_cache(maxsize=4096)
def slot_of(parent: str, name: str) -> int | None:
    """Return the place of an element among the slots of its parent; `None` if it has none there."""
    for number, slot in enumerate(CHILDREN.get(parent, ())):
        if name in slot.names:
            return number
    return None


def parents_of(name: str) -> list[str]:
    """Return the elements that an element may stand in."""
    return [parent for parent in CHILDREN if slot_of(parent, name) is not None]


#: Attributes that people write, and those that they mean by them, beyond slips of the pen.
_OFTEN_WRITTEN_FOR = frozenset({("form", "from"), ("name", "id")})


def misspelt(element: Element, wanted: str) -> str | None:
    """Return the unknown attribute of an element that was probably meant to be `wanted`, which it lacks."""
    known = KNOWN.get(element.name, frozenset())
    for attribute in element.attributes:
        if attribute.namespace or attribute.name in known:
            continue
        close = get_close_matches(attribute.name.lower(), known, n=1, cutoff=0.6)
        if close == [wanted] or (attribute.name, wanted) in _OFTEN_WRITTEN_FOR:
            return attribute.name
    return None
