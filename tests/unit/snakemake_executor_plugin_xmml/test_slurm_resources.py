"""The resources by which rules speak to Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from snakemake_executor_plugin_xmml.placement import DoesNotFit, needs_of
from snakemake_executor_plugin_xmml.rule_jobs import RuleJob, script_of
from snakemake_executor_plugin_xmml.slurm_resources import KEYS, UNUSED, slurm_settings, with_slurm_settings
from xmml_planner.sites import Site
from xmml_sites.batch import by_name

SITE = Site("alpha", ssh="alpha", scheduler="slurm", partition="batch", account="mine", options=("--nice=1",))


def directives(resources: dict[str, Any]) -> list[str]:
    """The options that the job of a rule with these resources has."""
    site = with_slurm_settings(SITE, slurm_settings(resources))
    job = RuleJob("study-1", "true", needs_of(2, resources), (), (), (), Path("log"), Path("arriving"))
    text = by_name("slurm").render(script_of(job, site, "/home/me/xmml/snakemake/study-1"))
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_a_job_has_what_the_executor_for_slurm_would_give_it() -> None:
    resources = {
        "slurm_partition": "long",
        "slurm_account": "abc",
        "qos": "high",
        "constraint": "fast&big",
        "slurm_extra": "--exclusive --comment='two words'",
        "runtime": 90,
        "mem_mb": 2000,
    }
    wanted = ["--partition=long", "--account=abc", "--qos=high", "--time=1:30:00", "--mem=2000M"]
    wanted += ["--nice=1", "--constraint=fast&big", "--exclusive --comment='two words'"]
    assert [each for each in wanted if each not in directives(resources)] == []


def test_without_resources_a_job_has_what_the_file_of_sites_says() -> None:
    assert {"--partition=batch", "--account=mine", "--nice=1"} <= set(directives({"qos": "", "mem_mb": None}))


@pytest.mark.parametrize("extra", ["'--nice=10 --exclusive'", '"--nice=10 --exclusive"', " --nice=10 --exclusive "])
def test_quotation_marks_around_further_options_are_those_of_a_command_line(extra: str) -> None:
    assert slurm_settings({"slurm_extra": extra}) == [("options", "--nice=10 --exclusive")]


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ("--nice=1 --partition=long", "slurm_extra has --partition, which is what slurm_partition says: write that"),
        ("-t 30", "slurm_extra has -t, which is what runtime says: write that"),
        ("--output=mine", "slurm_extra has --output, which the executor sets itself: leave it out"),
        ("--comment='one", "slurm_extra cannot be read"),
    ],
)
def test_further_options_that_the_executor_sets_itself_are_refused(extra: str, says: str) -> None:
    with pytest.raises(DoesNotFit) as refusal:
        slurm_settings({"slurm_extra": extra})
    assert says in str(refusal.value)


def test_a_value_of_two_lines_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="resources: account: this must be one line"):
        with_slurm_settings(SITE, slurm_settings({"slurm_account": "a\nb"}))


def test_no_resource_is_both_used_and_unused() -> None:
    assert set(KEYS) & set(UNUSED) == set()
