"""A report with hostile words, opened in a browser: it shows them, executes nothing and asks nobody."""

from __future__ import annotations

import subprocess
from pathlib import Path

from faulty_models import RECEIVE, Models
from lxml import html
from needs import needs
from somebody import Somebody
from waiting import LIMIT_S

pytestmark = needs("chromium")

#: Each would change the title of the page, or have the browser connect to somebody.
PAYLOADS = (
    "<script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "<svg onload=\"document.title = 'owned'\"></svg>",
    "<img src='{somebody}/image'>",
    "<iframe src='{somebody}/frame'></iframe>",
    "<style>@import url('{somebody}/style')</style>",
    "<link rel=stylesheet href='{somebody}/sheet'>",
    "<script src='{somebody}/script'></script>",
    "<object data='{somebody}/object'></object>",
)
FAILING = """import sys, xmml
text = {text!r}
print(text, flush=True)
print(text, file=sys.stderr, flush=True)
with xmml.Instance() as me:
    while me.reuse():
        raise RuntimeError(text)
"""


def opened(page: Path, profile: Path) -> html.HtmlElement:
    """Open a page in a browser; return the document as it is when everything has loaded."""
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=3000"]
    done = subprocess.run(
        ["chromium", *words, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    return html.fromstring(done.stdout)


def title(document: html.HtmlElement) -> str:
    return document.findtext(".//title") or ""


def test_hostile_words_of_a_program_are_shown_and_nothing_else(
    models: Models, somebody: Somebody, tmp_path: Path
) -> None:
    payload = " ".join(PAYLOADS).format(somebody=somebody.address)
    ended = models.run(models.write({"a": FAILING.format(text=payload), "b": RECEIVE}))
    assert ended.status == 4, ended.err
    document = opened(ended.folder / "report.html", tmp_path / "profile")
    assert "onerror=" in document.text_content(), "the words are shown"
    assert title(document) != "owned"
    assert somebody.asked == []


def test_what_would_stand_in_it_as_it_is_executes_and_loads_nothing(
    models: Models, somebody: Somebody, tmp_path: Path
) -> None:
    ended = models.run(models.write({"a": "import xmml\n", "b": RECEIVE}))
    text = (ended.folder / "report.html").read_text()
    page = tmp_path / "page.html"
    payload = "".join(PAYLOADS).format(somebody=somebody.address)
    page.write_text(text.replace("</h1>", f"</h1>{payload}", 1))
    assert page.read_text() != text
    assert title(opened(page, tmp_path / "profile")) != "owned"
    assert somebody.asked == []


def test_a_page_without_that_policy_would_ask(somebody: Somebody, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<title>page</title>{PAYLOADS[0]}{PAYLOADS[3].format(somebody=somebody.address)}")
    assert title(opened(page, tmp_path / "profile")) == "owned"
    assert somebody.asked
