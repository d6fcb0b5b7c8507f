"""What the jobs of one run ask their queues for, where that is not what the file of sites says: `--job`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from xmml.graphs.quantity_text import value_text
from xmml.late_dataclass import dataclass
from xmml.problems import did_you_mean
from xmml.units import Dimension
from xmml_planner.execution_plan import Job
from xmml_planner.problems import NoPlan, WishError
from xmml_planner.sites.catalogue import Site, SiteCatalogue

#: What can be set, by the keys of a file of sites.
KEYS = ("partition", "account", "qos", "reservation", "options", "walltime", "memory")


@dataclass(frozen=True)
class JobSettings:
    """What jobs at a site ask for.

    Attributes:
        site: attributes of the site that have another value for these jobs; `options` come behind those of the site.
        walltime_s: the time limit of every job; `None`: what the plan finds.
        memory_bytes: of each node, at least; 0: what the plan finds.
    """

    site: dict[str, Any] = field(default_factory=dict)
    walltime_s: float | None = None
    memory_bytes: int = 0

    def of_site(self, site: Site) -> Site:
        """Return the site as the planner and the jobs see it."""
        changed = {**self.site, "options": (*site.options, *self.site.get("options", ()))}
        longest_s = min((each for each in (site.walltime_s, self.walltime_s) if each is not None), default=None)
        given = set(self.site)
        given |= {"walltime"} if longest_s != site.walltime_s else set()
        given |= {"memory"} if self.memory_bytes else set()
        return replace(site, walltime_s=longest_s, origin={**site.origin, **dict.fromkeys(given, "--job")}, **changed)

    def of_job(self, job: Job, site: Site) -> Job:
        """Return a planned job as it is asked for.

        Args:
            site: as its file describes it.

        Raises:
            NoPlan: the site has less.
        """
        if self.walltime_s is not None and self.walltime_s > (site.walltime_s or self.walltime_s):
            raise NoPlan(_too_much(job, "walltime", self.walltime_s, site.walltime_s or 0.0, Dimension.TIME))
        if site.memory_bytes is not None and self.memory_bytes > site.memory_bytes:
            raise NoPlan(_too_much(job, "memory", self.memory_bytes, site.memory_bytes, Dimension.DATA))
        return replace(
            job,
            walltime_s=job.walltime_s if self.walltime_s is None else self.walltime_s,
            memory_per_node_bytes=max(job.memory_per_node_bytes, self.memory_bytes),
        )


def job_settings(catalogue: SiteCatalogue, given: Sequence[tuple[str, str]]) -> dict[str, JobSettings]:
    """Return the settings of jobs by site.

    Args:
        given: pairs of a key, or a site, a dot and a key, and a value as a file of sites has it; without a site it
            holds for all sites with a queue. The last value of a key counts, but `options` add up.

    Raises:
        WishError: there is no such site or key, the site has no queue, or the value cannot be.
    """
    found: dict[str, JobSettings] = {}
    for target, text in given:
        name, _, key = target.rpartition(".")
        attribute, value = _read(target, key, text)
        for site in _sites(catalogue, target, name):
            settings = found.get(site, JobSettings())
            if attribute in ("walltime_s", "memory_bytes"):
                found[site] = replace(settings, **{attribute: value})
            else:
                earlier = settings.site.get("options", ()) if attribute == "options" else None
                changed = value if earlier is None else (*earlier, *value)
                found[site] = replace(settings, site={**settings.site, attribute: changed})
    return found


def _sites(catalogue: SiteCatalogue, target: str, name: str) -> list[str]:
    if name and name not in catalogue.sites:
        raise WishError(f'{target}: there is no site "{name}"; {did_you_mean(name, catalogue.sites, "sites")}')
    sites = [catalogue[name]] if name else list(catalogue.sites.values())
    queued = [site.name for site in sites if site.submits_jobs]
    if not queued:
        who = f"{name} has no queue" if name else "no site has a queue"
        raise WishError(f"{target}: {who}, so its programs are started without a job; leave it out")
    return queued


def _read(target: str, key: str, text: str) -> tuple[str, Any]:
    """Return the attribute that a key sets, and its value."""
    from xmml_planner.sites.fields import SITE_FIELDS, FieldError
    from xmml_planner.sites.toml_positions import Node

    if key not in KEYS:
        raise WishError(f'{target}: jobs have no "{key}"; {did_you_mean(key, KEYS, "keys")}')
    node = Node([text], elements=[Node(text)]) if key == "options" else Node(text)
    try:
        return SITE_FIELDS[key].attribute, SITE_FIELDS[key].read(node)
    except FieldError as error:
        raise WishError(f"{target}: {error.message}" + (f"; {error.help}" if error.help else "")) from None


def _too_much(job: Job, what: str, wanted: float, there: float, dimension: Dimension) -> str:
    return (
        f"jobs at {job.site} are to have a {what} of {value_text(wanted, dimension)}, but have at most "
        f"{value_text(there, dimension)} there: ask for less, or place instances elsewhere with --place"
    )
