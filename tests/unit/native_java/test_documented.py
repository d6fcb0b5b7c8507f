"""The program of docs/java.md, from the text as printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from needs import needs_java

pytestmark = needs_java

PAGE = (Path(__file__).parents[3] / "docs/java.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    files = dict(re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert set(files) == {"model.xmml", "Plate.java", "controller.py", "Makefile"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (printed,) = re.findall(r"^```\n(t = .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ended = subprocess.run(
        [sys.executable, "-m", "xmml_run", "model.xmml", "--json", "-o", "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["status"] == "done"
    assert (tmp_path / "run/instances/plate/stdout").read_text() == printed
