"""The pages about the codes of the checks: what each means, why it matters, and how to mend it."""

from __future__ import annotations

from pathlib import Path

_PAGES = Path(__file__).parent / "checks" / "pages"


def has_page(code: str) -> bool:
    """Say whether there is a page about a code."""
    return code.isalnum() and (_PAGES / f"{code}.md").is_file()


def page(code: str) -> str:
    """Return the page about a code, as Markdown.

    Raises:
        KeyError: there is none.
    """
    if not has_page(code):
        raise KeyError(code)
    return (_PAGES / f"{code}.md").read_text(encoding="utf-8")
