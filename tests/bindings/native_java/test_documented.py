"""The program of docs/java.md, from the text as printed."""

from __future__ import annotations

import re
from pathlib import Path

import printed
from model_runs import run_document
from needs import needs_java

pytestmark = needs_java

PAGE = (printed.DOCS / "java.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    files = printed.write("java.md", tmp_path)
    assert set(files) == {"model.xmml", "Plate.java", "controller.py", "Makefile"}
    (said,) = re.findall(r"^```\n(t = .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert run_document(tmp_path / "model.xmml").output("plate") == said
