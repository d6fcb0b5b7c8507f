"""The model that the README shows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_readme_shows_the_model_hello() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^`hello.xmml`:\n\n```xml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    hello = (ROOT / "workflows" / "hello" / "model.xmml").read_text(encoding="utf-8")
    assert hello.partition("\n")[2] == shown  # without the declaration of XML
