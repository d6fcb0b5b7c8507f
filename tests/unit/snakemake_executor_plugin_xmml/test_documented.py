"""The rule that docs/snakemake.md shows."""

from __future__ import annotations

from pathlib import Path

import printed

SNAKEFILE = Path(__file__).parents[3] / "workflows" / "canal" / "Snakefile"


def test_the_page_shows_the_rule_of_the_canal() -> None:
    rule = printed.blocks("snakemake.md", "python")[0]
    assert set(rule.splitlines()) <= set(SNAKEFILE.read_text(encoding="utf-8").splitlines())
