"""The resources by which rules speak to Slurm, as Snakemake's own executor for Slurm names them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xmml_planner.job_settings import job_settings
from xmml_planner.problems import WishError
from xmml_planner.sites import Site, SiteCatalogue

from snakemake_executor_plugin_xmml.placement import DoesNotFit

#: What of them the jobs of a rule in a queue of Slurm get, by the keys of a file of sites.
KEYS = {
    "slurm_partition": "partition",
    "slurm_account": "account",
    "qos": "qos",
    "constraint": "options",
    "slurm_extra": "options",
}
#: The others, which no job gets.
UNUSED = (
    *("nodes", "tasks", "tasks_per_node", "tasks_per_gpu", "mpi", "cpus_per_task", "cpus_per_gpu", "mem_mb_per_cpu"),
    *("gres", "gpu_model", "clusters", "cluster", "slurm_cluster"),
)
#: Options that may not stand in `slurm_extra`, and what says the same; empty: nothing may.
MANAGED = {
    **dict.fromkeys(("--partition", "-p"), "slurm_partition"),
    **dict.fromkeys(("--account", "-A"), "slurm_account"),
    **dict.fromkeys(("--qos", "-q"), "qos"),
    **dict.fromkeys(("--constraint", "-C"), "constraint"),
    **dict.fromkeys(("--time", "-t"), "runtime"),
    "--mem": "mem_mb",
    **dict.fromkeys(("--cpus-per-task", "-c", "--ntasks", "-n", "--ntasks-per-node"), "threads"),
    **dict.fromkeys(("--output", "-o", "--error", "-e", "--array", "-a", "--nodes", "-N", "--requeue"), ""),
}


def slurm_settings(resources: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what jobs in a queue of Slurm ask for, as keys of a file of sites and values.

    Raises:
        DoesNotFit: `slurm_extra` has an option that the executor sets itself.
    """
    found = []
    for name, key in KEYS.items():
        value = str(resources.get(name) or "").strip()
        if name == "slurm_extra":
            value = _without_quotes(value)
            _check(value)
        if value:
            found.append((key, f"--constraint={value}" if name == "constraint" else value))
    return found


def with_slurm_settings(site: Site, settings: Sequence[tuple[str, str]]) -> Site:
    """Return a site with a queue of Slurm as the job of a rule sees it; what the rule says stems from it.

    Raises:
        DoesNotFit: a value cannot be.
    """
    if not settings:
        return site
    try:
        asked = job_settings(SiteCatalogue({site.name: site}), settings)[site.name].of_site(site)
    except WishError as error:
        raise DoesNotFit(f"resources: {error}") from None
    return replace(asked, origin={**site.origin, **{key: "the rule" for key, _ in settings}})


def _without_quotes(text: str) -> str:
    """Take away the quotation marks that protect a text on Snakemake's command line and in its profiles."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" and text[0] not in text[1:-1]:
        return text[1:-1].strip()
    return text


def _check(extra: str) -> None:
    try:
        words = shlex.split(extra)
    except ValueError as error:
        raise DoesNotFit(f"slurm_extra cannot be read: {error}: {extra}") from None
    for word in words:
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        if option in MANAGED:
            instead = MANAGED[option]
            raise DoesNotFit(
                f"slurm_extra has {option}, which "
                + (f"is what {instead} says: write that" if instead else "the executor sets itself: leave it out")
            )
