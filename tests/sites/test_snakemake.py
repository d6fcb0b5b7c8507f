"""A coupled rule of a workflow, over the clusters of the test bed, carried out by a real Snakemake on the laptop."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import greeting
import pytest

if TYPE_CHECKING:
    from testbed import Bed

LIMIT_S = 240
#: With the making of the test bed, and what it takes to find it clean.
pytestmark = pytest.mark.timeout(400)

SNAKEFILE = f"""
rule all:
    input: "sum.txt"
rule couple:
    input: "model.xmml"
    output: "heard/{{number}}.txt"
    shell: "{greeting.COMMAND}"
rule add:
    input: expand("heard/{{number}}.txt", number=[1, 2])
    output: "sum.txt"
    shell: "cat {{input}} | paste -s -d + | tr -d '\\\\n' > {{output}}"
"""
PLACES = {"world": "alpha", "listener": "beta"}


def test_coupled_rules_run_over_two_clusters_and_their_results_are_there_for_other_rules(
    firewalled: Bed, tmp_path: Path
) -> None:
    (tmp_path / "model.xmml").write_text(greeting.model())
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "sites.toml").write_text(firewalled.sites_toml())
    places = " ".join(f"--place {name}={site}" for name, site in PLACES.items())
    command = [sys.executable, "-m", "snakemake", "--executor", "xmml", "--jobs", "2", "--xmml-sites", "sites.toml"]
    command += ["--xmml-keep-runs", f"--xmml-options={places}"]
    done = firewalled.laptop.run(command, cwd=tmp_path, check=False, timeout_s=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "sum.txt").read_text() == "1+1+1+2+2+2"
    runs = list((tmp_path / ".snakemake/xmml/runs").iterdir())
    assert len(runs) == 2
    for run in runs:
        events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        assert {each["instance"]: each["site"] for each in events if each["what"] == "joined"} == PLACES
        jobs = json.loads((run / "provenance.json").read_text())["jobs"]
        assert {job["site"] for job in jobs} == {"alpha", "beta"}
