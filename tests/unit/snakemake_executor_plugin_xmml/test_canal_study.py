"""The parameter study that comes with the canal: prepared, run as often as there are cases, analysed, drawn."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

CANAL = Path(__file__).parents[3] / "workflows" / "canal"
SNAKEMAKE = Path(sys.executable).with_name("snakemake")


def test_the_study_of_the_canal_goes_from_its_cases_to_a_picture(tmp_path: Path) -> None:
    folder = tmp_path / "canal"
    shutil.copytree(CANAL, folder, ignore=shutil.ignore_patterns("build", "runs", "study", ".snakemake"))
    text = (folder / "model.xmml").read_text()
    assert 'total="1 hr"' in text
    (folder / "model.xmml").write_text(text.replace('total="1 hr"', 'total="1 min"'))
    command = [SNAKEMAKE, "--executor", "xmml", "--jobs", "2", "--config", "heights=[0.2, 0.4]"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "study/runup.png").read_bytes().startswith(b"\x89PNG")
    for height in ("0.2", "0.4"):
        assert (folder / f"study/{height}/levels.png").is_file()
        assert f'value="{height} m"' in (folder / f"study/{height}/case.xml").read_text()
        (row,) = csv.reader((folder / f"study/{height}/highest.csv").read_text().splitlines())
        assert float(row[0]) == float(height)
