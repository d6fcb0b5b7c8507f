"""A model as text: one XML document without includes that reads as the same model, or plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from lxml import etree

from xmml.lxml_tree import as_lxml
from xmml.model import AppliedFilter, Coupling, Instance, Model
from xmml.positions import Position
from xmml.scales import Range, Scale
from xmml.tree import MAD, RUN, XMML
from xmml.units import Quantity

_PREFIXES: Mapping[str | None, str] = {None: XMML, "run": RUN, "mad": MAD}


def to_xml(model: Model) -> str:
    """Return the resolved model as one document: includes in place, parameters, scales and factors worked out.

    What does not change how the model runs (descriptions, `extra`, foreign attributes) is kept; comments are not.

    Raises:
        ValueError: the model was not made from a document.
    """
    if model.document is None:
        raise ValueError("this model was not read from a document")
    source = model.document.root
    root = as_lxml(source, prefixes=_PREFIXES)
    topology = root.find(f"{{{XMML}}}topology")
    nodes = [] if topology is None else topology.findall(f"{{{XMML}}}instance")
    for node, instance in zip(nodes, model.instances.values(), strict=True):
        _write_instance(node, instance)
    nodes = [] if topology is None else topology.findall(f"{{{XMML}}}coupling")
    of_messages = [node for node in nodes if node.get(f"{{{RUN}}}kind") not in ("pool", "latest")]
    for node, coupling in zip(of_messages, model.couplings, strict=True):
        _write_coupling(node, coupling)
    etree.cleanup_namespaces(root, keep_ns_prefixes=["run"])
    text: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return text.decode("utf-8") + "\n"


def _write_instance(node: Any, instance: Instance) -> None:
    node.set("id", instance.id)
    node.set("init", "yes" if instance.init else "no")
    extras = node.findall(f"{{{XMML}}}extra")
    for child in list(node):
        node.remove(child)
    node.text = None
    for scale in instance.scales:
        _write_scale(node, scale)
    _write_params(node, instance.params)
    for extra in extras:
        for copy in extra.findall(f"{{{RUN}}}copy"):
            extra.remove(copy)
        if len(extra) or extra.attrib or (extra.text or "").strip():
            node.append(extra)
    if instance.copy_params:
        extra = etree.SubElement(node, f"{{{XMML}}}extra")
        for index, params in instance.copy_params.items():
            for name, value in params.items():
                etree.SubElement(extra, f"{{{RUN}}}copy", {"index": str(index), "param": name, "value": value})
    _indent(node)


def _write_scale(node: Any, scale: Scale) -> None:
    attributes = {"id": scale.id}
    for name, range_ in (("delta", scale.delta), ("total", scale.total)):
        if range_ is not None and range_.is_regular and not range_.fixed:
            attributes[name] = str(range_.min)
    if scale.characteristic is not None:
        attributes["characteristic"] = str(scale.characteristic)
    if scale.dimensions is not None:
        attributes["dimensions"] = str(scale.dimensions)
    if scale.type is not None:
        attributes["type"] = scale.type
    element = etree.SubElement(node, f"{{{XMML}}}{scale.kind}scale", attributes)
    for name, range_ in (("delta", scale.delta), ("total", scale.total)):
        if range_ is not None and name not in attributes:
            _write_range(element, name, range_)


def _write_range(scale: Any, name: str, range_: Range) -> None:
    attributes = {"type": "fixed" if range_.fixed else "variable"}
    if range_.min is not None:
        attributes["min"] = str(range_.min)
    if range_.max is not None:
        attributes["max"] = str(range_.max)
    etree.SubElement(scale, f"{{{XMML}}}{name}", attributes)


def _write_params(node: Any, params: Mapping[str, str]) -> None:
    for name, value in params.items():
        etree.SubElement(node, f"{{{XMML}}}param", {"id": name, "value": value})


def _write_coupling(node: Any, coupling: Coupling) -> None:
    for apply, applied in zip(node.findall(f"{{{XMML}}}apply"), coupling.filters, strict=True):
        if applied.factor is not None and math.isfinite(applied.factor):
            apply.set("factor", repr(applied.factor))
        kept = [child for child in apply if child.tag != f"{{{XMML}}}param"]
        for child in list(apply):
            apply.remove(child)
        apply.text = None
        _write_params(apply, applied.params)
        apply.extend(kept)
    _indent(node)


def _indent(node: Any) -> None:
    tail = node.tail
    etree.indent(node, level=2)
    node.tail = tail


def to_json(model: Model) -> dict[str, Any]:
    """Return the model as plain values: instances name their definitions, quantities are written out."""
    names = [each.name for each in fields(model) if each.name not in ("document", "found")]
    return {name: _plain(getattr(model, name)) for name in names}


def _plain(value: Any) -> Any:
    if isinstance(value, Quantity):
        return {"value": float(value), "unit": value.dimension.symbol}
    if isinstance(value, Position):
        return {"file": value.file, "line": value.line, "column": value.column}
    if is_dataclass(value) and not isinstance(value, type):
        plain = {each.name.rstrip("_"): _plain(getattr(value, each.name)) for each in fields(value)}
        if isinstance(value, Instance | AppliedFilter):
            plain["definition"] = value.definition.id
        return plain
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
