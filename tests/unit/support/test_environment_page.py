"""The page of the variables of the environment, docs/environment.md, names those that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = [
    *(ROOT / "native/wire/src").rglob("*.rs"),
    *(ROOT / "native/path/src").rglob("*.rs"),
    *(ROOT / "native/core/src").rglob("*.rs"),
    *(ROOT / "native/site/src").rglob("*.rs"),
    *(ROOT / "native/python/xmml_native").rglob("*.py"),
    *(ROOT / "executors").rglob("*.py"),
]
#: What processes of xMML say to each other.
INTERNAL = {"XMML_HOST", "XMML_HOSTED", "XMML_REPORTS"}


def test_every_variable_that_a_run_reads_or_sets_is_on_the_page_and_no_other() -> None:
    used = {name for file in SOURCES for name in re.findall(r'"(XMML_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    page = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(XMML_[A-Z_]+)`", page)) == used - INTERNAL
