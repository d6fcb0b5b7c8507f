"""The parameter study that comes with the canal, made short."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Sequence
from pathlib import Path

CANAL = Path(__file__).parents[2] / "workflows" / "canal"
HEIGHTS = ("0.2", "0.4")


def cases(heights: Sequence[str] = HEIGHTS) -> tuple[str, str]:
    """For Snakemake: which cases there are."""
    return ("--config", f"heights=[{', '.join(heights)}]")


def copy(folder: Path) -> None:
    """Copy the study as it is, without what it has made."""
    shutil.copytree(CANAL, folder, ignore=shutil.ignore_patterns("build", "runs", "study", ".snakemake"))


def write(folder: Path) -> None:
    """Copy the study, for a minute of the canals' time instead of an hour."""
    copy(folder)
    text = (folder / "model.xmml").read_text()
    assert 'total="1 hr"' in text
    (folder / "model.xmml").write_text(text.replace('total="1 hr"', 'total="1 min"'))


def check(folder: Path, heights: Sequence[str] = HEIGHTS) -> None:
    """Everything was made: parameters, results and their analysis for each case, and the picture of all."""
    assert (folder / "study/runup.png").read_bytes().startswith(b"\x89PNG")
    for height in heights:
        assert f'value="{height} m"' in (folder / f"study/{height}/case.xml").read_text()
        assert (folder / f"study/{height}/levels.png").is_file()
        (row,) = csv.reader((folder / f"study/{height}/highest.csv").read_text().splitlines())
        assert float(row[0]) == float(height)
