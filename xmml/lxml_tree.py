"""Our elements as lxml elements, for writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lxml import etree

from xmml.problems import ModelError
from xmml.tree import Element


def as_lxml(
    element: Element,
    parent: Any = None,
    prefixes: Mapping[str | None, str] | None = None,
) -> Any:
    """Return a copy of an element as lxml has it, below `parent` if one is given.

    Parameters:
        prefixes: namespaces by the prefix that the copy is to use for them; lxml makes up the others.

    Raises:
        ModelError: a namespace is no URI.
    """
    tag = _qualified(element.namespace, element.name)
    attributes = {_qualified(each.namespace, each.name): each.value for each in element.attributes}
    try:
        node = (
            etree.Element(tag, attributes, dict(prefixes or {}))  # type: ignore[arg-type]
            if parent is None
            else etree.SubElement(parent, tag, attributes)
        )
    except ValueError as error:
        raise ModelError([element.problem("E01", f"<{element.name}> cannot be read: {error}")]) from None
    last = None
    for part in element.content:
        if isinstance(part, Element):
            last = as_lxml(part, node)
        elif last is None:
            node.text = (node.text or "") + part
        else:
            last.tail = (last.tail or "") + part
    return node


def _qualified(namespace: str, name: str) -> str:
    return f"{{{namespace}}}{name}" if namespace else name
