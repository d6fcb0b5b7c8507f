"""An xMML document written back as it is: comments, processing instructions, foreign elements and annotations kept.

Includes stay as they are, or what they name takes their place (`expand`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lxml import etree

from xmml.convert.converted import Converted
from xmml.files import FileUnreadable, read_bytes
from xmml.include import Expansion, pointer_steps
from xmml.problems import ModelError, in_order
from xmml.reach import reach_of
from xmml.tree import XINCLUDE, decode, unreadable

_INCLUDE, _FALLBACK = f"{{{XINCLUDE}}}include", f"{{{XINCLUDE}}}fallback"


def rewrite(path: str | os.PathLike[str], expand: bool = False, *, allow_outside: bool = False) -> Converted:
    """Return a document as it is written, in UTF-8; with `expand`, with its includes in place.

    The canonical XML (C14N) of the result is that of the document; the layout inside tags may differ.

    Raises:
        ModelError: the document or an include cannot be read, or is beyond a bound (see `xmml.tree`).
    """
    file = os.fspath(path)
    expansion = Expansion(reach_of(file, allow_outside=allow_outside))
    try:
        expansion.read(file)
    except FileUnreadable as error:
        raise ModelError([unreadable(file, f"cannot read the document: {error}")]) from None
    if expansion.problems:
        raise ModelError(in_order(expansion.problems))
    tree = _parsed(file)
    notes = []
    if expand:
        _expand(tree.getroot(), Path(file))
        etree.cleanup_namespaces(tree, keep_ns_prefixes=_prefixes(tree.getroot()))
        if len(expansion.files) > 1:
            notes.append("includes are written out: " + ", ".join(expansion.files[1:]))
    text = etree.tostring(tree, xml_declaration=True, encoding="UTF-8").decode("utf-8")
    return Converted(text if text.endswith("\n") else f"{text}\n", tuple(notes))


def _prefixes(root: Any) -> list[str]:
    """Return the prefixes that the root declares, without that of XInclude."""
    return [prefix for prefix, namespace in root.nsmap.items() if prefix and namespace != XINCLUDE]


def _parsed(file: str) -> Any:
    """Return a document with everything in it; it has been read by our own reader, which knows the bounds."""
    text = decode(read_bytes(file), file)
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, strip_cdata=False, huge_tree=True, load_dtd=False
    )
    try:
        return etree.ElementTree(etree.fromstring(text.encode("utf-8"), parser))
    except etree.XMLSyntaxError as error:
        raise ModelError([unreadable(file, f"not well-formed XML: {error}")]) from None


def _expand(element: Any, file: Path) -> None:
    for child in list(element):
        if child.tag != _INCLUDE:
            if isinstance(child.tag, str):
                _expand(child, file)
            continue
        content, text = _included(child, file)
        _replace(child, content, text)


def _included(include: Any, file: Path) -> tuple[list[Any], str]:
    """Return the nodes that take the place of an include, and the text before them."""
    href, _, fragment = include.get("href").partition("#")
    path = file.parent / unquote(href)
    pointer = include.get("xpointer") or unquote(fragment)
    try:
        if include.get("parse") == "text":
            return [], decode(read_bytes(path), str(path))
        root = _parsed(str(path)).getroot()
    except FileUnreadable:
        fallback = include.find(_FALLBACK)
        _expand(fallback, file)
        return list(fallback), fallback.text or ""
    _expand(root, path)
    found = _selected(root, pointer_steps(pointer)) if pointer else [root]
    for node in found:
        node.tail = "\n"
    return found, ""


def _selected(root: Any, steps: list[str]) -> list[Any]:
    found = [root] if steps[0] in ("*", etree.QName(root).localname) else []
    for step in steps[1:]:
        children = [child for element in found for child in element if isinstance(child.tag, str)]
        found = [child for child in children if step in ("*", etree.QName(child).localname)]
    return found


def _replace(node: Any, content: list[Any], text: str) -> None:
    """Put text and nodes into the place of a node; its tail follows them."""
    parent, before, tail = node.getparent(), node.getprevious(), node.tail or ""
    place = parent.index(node)
    node.tail = None
    parent.remove(node)
    if not content:
        text += tail
    if before is not None:
        before.tail = (before.tail or "") + text
    else:
        parent.text = (parent.text or "") + text
    for offset, each in enumerate(content):
        parent.insert(place + offset, each)
    if content:
        content[-1].tail = (content[-1].tail or "") + tail if text else tail
