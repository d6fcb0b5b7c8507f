"""Validation against the schema with lxml, its findings turned into sentences with a place and a suggestion."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import xmml_schema
from lxml import etree

from xmml.lxml_tree import as_lxml
from xmml.problems import ModelError, Problem, did_you_mean
from xmml.tree import XMML_PARAM, Element

#: What attributes with a pattern expect.
_EXPECTED: Mapping[str, str] = {
    "from": 'write INSTANCE.PORT with exactly one dot, such as from="macro.state"',
    "to": 'write INSTANCE.PORT with exactly one dot, such as to="micro.start"',
    "domain": 'a domain is a path of words with dots between them, such as "artery.tissue"',
    "multiplicity": 'write a positive whole number, or "dynamic"',
    "cores": "write a positive whole number",
    "dimensions": "write a positive whole number",
    "xmml_version": "this program reads xMML 0.4",
    "id": "an id begins with a letter or _ and has letters, digits, _ - and . only",
}
#: Attributes whose values the checks read themselves and describe better than a pattern can.
_CHECKED_ELSEWHERE = {
    ("timescale", "spacescale", "otherscale"): {"delta", "total", "characteristic"},
    ("delta", "total"): {"min", "max"},
    ("implementation",): {"size", "runtime", "memory"},
    ("coupling",): {"size"},
}


def validate(root: Element) -> list[Problem]:
    """Return what the schema finds wrong with a document.

    Ids and references are left to the checks, which know more about them than the schema does.
    """
    schema = _schema("parameters" if root.namespace == XMML_PARAM else "model")
    elements: list[Element] = []
    try:
        tree = as_lxml(root, elements)
    except ModelError as error:
        return list(error.problems)
    if schema.validate(tree):
        return []
    by_node = {
        tree.getroottree().getpath(node): element for node, element in zip(tree.iter("*"), elements, strict=True)
    }
    problems: dict[tuple[int, str], Problem] = {}
    for entry in schema.error_log:
        element = by_node.get(re.sub(r"/@[^/]*$", "", entry.path or ""), root)
        described = _describe(entry.type_name, entry.message, element)
        if described is not None:
            attribute, message, help = described
            problems.setdefault((id(element), attribute or ""), element.problem("E02", message, help, attribute))
    return list(problems.values())


@cache
def _schema(name: str) -> Any:
    path: Path = xmml_schema.MODEL if name == "model" else xmml_schema.PARAMETERS
    return etree.XMLSchema(etree.parse(str(path), etree.XMLParser(no_network=True)))


_NAMESPACE = re.compile(r"\{[^}']*\}")


def _describe(type_name: str, text: str, element: Element) -> tuple[str | None, str, str] | None:
    """Return attribute, message and help for one finding of libxml2; `None` for what the checks report."""
    if "_IDC" in type_name:
        return None
    plain = _NAMESPACE.sub("", text)
    named = re.search(r"attribute '([^']*)'", plain)
    attribute = named.group(1).rpartition(":")[2] if named else None
    name = f"<{element.name}>"
    if attribute is not None:
        if "is required but missing" in plain:
            return None, f'{name} lacks the attribute {attribute}="..."', _EXPECTED.get(attribute, "")
        if "is not allowed" in plain:
            return attribute, f'{name} has no attribute "{attribute}"', "remove it"
        if any(element.name in names and attribute in checked for names, checked in _CHECKED_ELSEWHERE.items()):
            return None
        value = element.get(attribute) or ""
        message = f'{attribute}="{value}" is not possible on {name}'
        allowed = re.search(r"of the set \{([^}]*)\}", plain)
        if allowed:
            return attribute, message, did_you_mean(value, re.findall(r"'([^']*)'", allowed.group(1)), "values")
        return attribute, message, _EXPECTED.get(attribute, "")
    expected = re.search(r"Expected is (?:one of )?\( (.*?) \)", plain)
    wanted = [each.strip() for each in expected.group(1).split(",")] if expected else []
    known = [each for each in wanted if not each.startswith("##")]
    listing = " or ".join(f"<{each}>" for each in known)
    if "Missing child element" in plain:
        return None, f"{name} is not complete: it lacks {listing or 'an element'}", ""
    if "This element is not expected" in plain:
        return None, f"{name} cannot stand here", _misplaced_help(element, known, listing)
    if "Character content" in plain:
        return None, f"{name} cannot hold text", "only elements may stand here"
    return None, plain.removeprefix(f"Element '{element.name}': ").rstrip("."), ""


def _misplaced_help(element: Element, known: list[str], listing: str) -> str:
    if not known:
        return "nothing may follow here: remove it, or look at the order of the elements"
    if element.name in known:
        return f"it must be in another namespace; expected here: {listing}"
    suggestion = did_you_mean(element.name, known)
    return (
        suggestion
        if suggestion.startswith("did you mean")
        else f"expected here: {listing}; the order of elements counts"
    )
