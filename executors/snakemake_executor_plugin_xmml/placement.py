"""Where a rule runs that is not a coupled run: on this machine if it fits, else at a site where it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xmml_planner.sites import Site, SiteCatalogue

from xmml.late_dataclass import dataclass

#: As Slurm counts it, for which `mem_mb` was made.
MB = 2**20
#: The resource by which a rule names its site.
SITE = "site"


@dataclass(frozen=True)
class Needs:
    """What a job asks for.

    Attributes:
        site: the site that the rule names; `None`: any.
        memory_bytes: 0: it does not say.
        runtime_s: how long it may take at most; `None`: it does not say.
    """

    threads: int = 1
    memory_bytes: int = 0
    gpus: int = 0
    runtime_s: float | None = None
    site: str | None = None


class DoesNotFit(Exception):
    """No machine can take the job; the text says what it asks for and how far that is from what there is."""


def needs_of(threads: int, resources: Mapping[str, Any]) -> Needs:
    """Return what a job of Snakemake asks for: `threads`, and the resources `mem_mb`, `gpu`, `runtime` (minutes) and
    `site`.

    Raises:
        DoesNotFit: `runtime` is no number.
    """
    site = resources.get(SITE)
    runtime = resources.get("runtime")
    if runtime is not None and not isinstance(runtime, int | float):
        raise DoesNotFit(f'runtime is "{runtime}", which is no number of minutes')
    return Needs(
        max(1, threads),
        int(resources.get("mem_mb") or 0) * MB,
        int(resources.get("gpu") or resources.get("gpus") or 0),
        None if runtime is None else 60.0 * runtime,
        None if site is None else str(site),
    )


def place(needs: Needs, here_cores: int, catalogue: SiteCatalogue | None) -> Site | None:
    """Return the site at which a job runs; `None`: on this machine.

    A site that the rule names is taken. Else the job runs here if this machine has the cores, and no GPU is asked for;
    else at the site where an hour of it costs least, of those with the shortest wait.

    Raises:
        DoesNotFit: nowhere.
    """
    sites = dict(catalogue.sites) if catalogue is not None else {}
    if needs.site is not None:
        site = sites.get(needs.site)
        if site is None:
            known = ", ".join(sites) or "none: --xmml-sites is not given"
            raise DoesNotFit(f'there is no site "{needs.site}"; the sites are: {known}')
        if (why := too_small(site, needs)) is not None:
            raise DoesNotFit(why)
        return site
    if needs.threads <= here_cores and needs.gpus == 0:
        return None
    reasons = {site.name: too_small(site, needs) for site in sites.values() if not is_this_machine(site)}
    fitting = [sites[name] for name, why in reasons.items() if why is None]
    if fitting:
        return min(fitting, key=lambda site: (site.cost * needs.threads, site.queue_wait_s or 0.0, site.name))
    here = (
        f"this machine has {here_cores} cores and no GPUs that are counted"
        if needs.gpus
        else (f"{needs.threads} threads are asked for, this machine has {here_cores} cores")
    )
    raise DoesNotFit("; ".join([here, *(why for why in reasons.values() if why is not None)]))


def is_this_machine(site: Site) -> bool:
    """Whether jobs at a site simply run here; the cluster that this machine belongs to has a queue instead."""
    return site.is_here and not site.has_queue


def too_small(site: Site, needs: Needs) -> str | None:
    """Return why a job does not fit on a node of a site; `None`: it does."""
    for what, wanted, there in (
        ("threads", needs.threads, site.cores),
        ("GPUs", needs.gpus, site.gpus),
        ("MiB of memory", needs.memory_bytes // MB, None if site.memory_bytes is None else site.memory_bytes // MB),
        ("seconds", int(needs.runtime_s or 0), None if site.walltime_s is None else int(site.walltime_s)),
    ):
        if there is not None and wanted > there:
            return f"{wanted} {what} are asked for, a job on one node at {site.name} has {there}"
    return None
