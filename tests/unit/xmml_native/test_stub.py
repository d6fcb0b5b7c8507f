"""The stub of the compiled module."""

from __future__ import annotations

import runpy
from pathlib import Path

STUB_DOCS = runpy.run_path(str(Path(__file__).parents[3] / "native/python/stub_docs.py"))


def test_the_stub_documents_what_help_shows() -> None:
    stub = STUB_DOCS["STUB"].read_text(encoding="utf-8")
    assert stub == STUB_DOCS["documented"](stub), "run: python native/python/stub_docs.py"
