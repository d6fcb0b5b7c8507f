"""The examples of the documentation, as printed: tests write them into files, and compile and run them.

A page shows a file under a line that has nothing but its name, `decay.c`: or "In C, `decay.c`:". A page that is
followed from top to bottom may show a change of such a file instead (`diff`), pictures of `model.xmml` as it is there,
and commands with what they print.

    python tests/support/printed.py

draws the pictures of such pages again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import SEARCH_PATH, XMML
from waiting import RUN_LIMIT_S

DOCS = Path(__file__).parents[2] / "docs"
#: The pages with pictures of the model that they build up.
WITH_PICTURES = ("pool-tutorial.md",)
_FILE = re.compile(r"^(?:In [\w+]+, )?`([\w./]+)`:\n\n```(?!diff)\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(
    r"^!\[[^\]]*\]\((?P<picture>[^)]+)\)$|^(?:`(?P<file>[\w./]+)`:\n\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LEFT_OUT = "...\n"
#: What is different in each run, and what stands for it.
_VARYING = {
    r"\b\d{8}-\d{6}(-\d+)?\b": "<time>",
    r"\bran .+ and exchanged\b": "ran <time> and exchanged",
}


def files(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    found = dict(_FILE.findall((DOCS / page).read_text(encoding="utf-8")))
    assert found, f"{page} shows no file under a line like `model.xmml`:"
    return found


def blocks(page: str, language: str) -> list[str]:
    """Every block of a page in a language."""
    return [text for kind, text in _BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) if kind == language]


def write(page: str, folder: Path) -> dict[str, str]:
    """Write the files that a page shows into a folder; returns them."""
    shown = files(page)
    for name, text in shown.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return shown


def pictures(page: str, folder: Path) -> Iterator[Path]:
    """Write and change the files of a page in a folder, as far as each picture that it shows of their model."""
    return (DOCS / step["picture"] for step in _steps(page, folder) if step["picture"])


def deviations(page: str, folder: Path, varying: Iterable[str] = ()) -> Iterator[str]:
    """Do in a folder what a page says, from top to bottom, and yield each command that printed something else.

    Instances print at the same time, so only the lines of each are in order. `...` stands for any lines of the run, and
    for instances that are not shown.

    Args:
        varying: patterns of what differs from run to run, beside the times.
    """
    replaced = _VARYING | dict.fromkeys(varying, "N")
    for step in _steps(page, folder):
        commands = re.split(r"^\$ ", step["text"] or "", flags=re.MULTILINE)
        if step["kind"] != "" or commands[0] != "":
            continue
        for command, _, shown in (each.partition("\n") for each in commands[1:]):
            done = subprocess.run(
                command,
                shell=True,
                cwd=folder,
                env={**os.environ, "PATH": SEARCH_PATH},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=RUN_LIMIT_S,
                check=False,
            )
            if not _is_shown(_without(replaced, done.stdout), _without(replaced, shown)):
                yield f"$ {command}\n{done.stdout}"


def _steps(page: str, folder: Path) -> Iterator[re.Match[str]]:
    """Yield the pictures and blocks of a page, each when the files that it shows before are in a folder."""
    for step in _STEP.finditer((DOCS / page).read_text(encoding="utf-8")):
        if step["file"]:
            file = folder / step["file"]
            file.write_text(_changed(file.read_text(), step["text"]) if step["kind"] == "diff" else step["text"])
        yield step


def _changed(text: str, diff: str) -> str:
    """Change a text; lines `...` stand between the places that a diff changes."""
    for place in diff.split(_LEFT_OUT):
        lines = place.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kinds) for kinds in (" -", " +"))
        assert text.count(old) == 1, f"{text.count(old)} places instead of one have\n{old}"
        text = text.replace(old, new)
    return text


def _is_shown(said: str, shown: str) -> bool:
    """Whether a page shows what was said: each instance has its lines in order, and so have all others together."""
    said_by, shown_by = _by_speaker(said), _by_speaker(shown)
    if _LEFT_OUT not in shown and said_by.keys() != shown_by.keys():
        return False
    for speaker, lines in shown_by.items():
        parts = [re.escape(part) for part in "".join(lines).split(_LEFT_OUT)]
        if re.fullmatch(r"(?:.*\n)*".join(parts), "".join(said_by.get(speaker, ()))) is None:
            return False
    return True


def _by_speaker(printed: str) -> dict[str, list[str]]:
    """Return the lines of each instance, the warnings of each, and the lines of none."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines(keepends=True):
        speaker = re.match(r"\S+ +\| |warning: \S+: ", line)
        found.setdefault(speaker[0] if speaker else "", []).append(line)
    return found


def _without(replaced: dict[str, str], text: str) -> str:
    for pattern, word in replaced.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def main() -> int:
    """Draw the pictures again."""
    for page in WITH_PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            for picture in pictures(page, Path(folder)):
                subprocess.run([XMML, "graph", f"{folder}/model.xmml", "-o", str(picture)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
