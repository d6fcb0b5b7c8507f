"""What a source distribution holds: whoever builds from it has every crate of the workspace, or cargo builds none."""

from __future__ import annotations

from pathlib import Path

from rooms import crates

ROOT = Path(__file__).resolve().parents[2]


def test_every_crate_of_the_workspace_is_in_a_source_distribution():
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    grafted = {ROOT / line[1] for line in lines if line[0] == "graft"}
    missing = [name for name, folder in crates(ROOT).items() if not grafted & {folder, *folder.parents}]
    assert not missing, f"add the folders of {missing} to MANIFEST.in"
