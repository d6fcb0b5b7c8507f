"""Objects of pools as people and programs read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xmml_native.archives.plain import plain_attributes

#: A payload is shown if it takes no more characters.
SHORT = 60


def object_line(attributes: Mapping[str, Any], data: Any = None) -> str:
    """Return a line for people: the attributes that were declared, what the payload is, and where it comes from.

    Args:
        data: the payload, which is shown if it is short; `None`: it is not shown.
    """
    own = [f"{name}={value}" for name, value in plain_attributes(attributes).items() if not name.startswith("sys.")]
    index = attributes.get("sys.index")
    writer = attributes.get("sys.instance", "") + (f"[{index}]" if index is not None else "")
    shape = "x".join(map(str, attributes.get("sys.shape") or ()))
    payload = f"{attributes.get('sys.type', '')} {shape}".rstrip()
    origin = f"{writer}.{attributes.get('sys.port', '')}, t = {attributes.get('sys.t', 0):g} s"
    if data is not None and _count(data) <= SHORT:
        value = " ".join(str(data).split())
        own += [value] if len(value) <= SHORT else []
    return f"{' '.join(own)}  ({payload}; {origin})".lstrip()


def _count(data: Any) -> int:
    """Return how many values a payload holds."""
    return int(data.size) if hasattr(data, "size") else len(data) if hasattr(data, "__len__") else 1
