"""Values of attributes as files and other programs can hold them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def plain(value: Any) -> Any:
    """Return the value of an attribute as JSON can hold it: times and bytes become texts."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def plain_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON can hold them."""
    return {name: plain(value) for name, value in attributes.items()}


def single(value: Any) -> Any:
    """Return the value of an attribute as one number or text, which files of every kind can hold."""
    if isinstance(value, bool):
        return int(value)
    return json.dumps(value) if isinstance(value, list) else plain(value)
