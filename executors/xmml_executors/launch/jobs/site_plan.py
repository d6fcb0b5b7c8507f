"""The part of a plan that concerns sites: their jobs, how they are reached, and which relays their relays dial."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xmml_planner import Plan
from xmml_planner.execution_plan import PlannedPath
from xmml_planner.sites import HERE, Site
from xmml_planner.submissions import remote_jobs

from xmml_executors.detours import RELAY

#: For how long a job is asked whose run time nobody knows, where the queue gives no time by default.
USUAL_WALLTIME_S = 86_400.0


def cluster_of(plan: Plan, site: Site) -> Site:
    """Return the site that a part of a cluster takes login node and files from; of another site, itself."""
    sites = {each.name: each for each in plan.sites}
    while site.like is not None and site.like in sites:
        site = sites[site.like]
    return site


def launch_site(plan: Plan) -> str:
    """Return the name of the site that is this machine, if the plan has one."""
    return next((site.name for site in plan.sites if site.is_here and not site.has_queue), HERE)


def reached_directly(plan: Plan) -> frozenset[str]:
    """Return the names of the jobs whose instances receive messages of other jobs of their cluster without a relay."""
    clusters = {site.name: cluster_of(plan, site).name for site in plan.sites}
    job_of = {name: job for job in plan.jobs for name in job.instances if job.site in clusters}
    job_of |= {each.name: job_of[each.rank_of] for each in plan.instances if each.rank_of in job_of}
    found = set()
    for conduit in plan.conduits:
        sender, receiver = job_of.get(conduit.sender), job_of.get(conduit.receiver)
        if sender is None or receiver is None or sender.name == receiver.name or conduit.methods == (RELAY,):
            continue
        if clusters[sender.site] == clusters[receiver.site]:
            found.add(receiver.name)
    return frozenset(found)


def relay_links(plan: Plan, site: str) -> RelayLinks:
    """Return the links of the relay of a site."""
    clusters = {each.name: cluster_of(plan, each).name for each in plan.sites}
    home = {launch_site(plan), *(each.name for each in plan.sites if each.is_here)}
    return links_of(plan, site, clusters, home)


def needs_relay(plan: Plan, *, is_direct: bool) -> bool:
    """Whether some instances reach the coordinator, or each other, through a relay only; with `is_direct`, they reach
    the coordinator without."""
    through_relay = any(route.method == "relay" for route in plan.routes)
    return through_relay or (not is_direct and any(site.submits_jobs for _, site in remote_jobs(plan).values()))


@dataclass(frozen=True)
class RelayLinks:
    """What the plan says of the links of one site's relay.

    Attributes:
        home: the way to the launching machine, whose relay the others dial through ssh; `None`: no messages go there.
        dialled: the ways to the relays of other sites that this one dials.
        clear_from: the sites whose relays dial this one without encryption.
    """

    home: PlannedPath | None = None
    dialled: tuple[PlannedPath, ...] = ()
    clear_from: frozenset[str] = frozenset()

    def words(self, home: str) -> list[str]:
        """Return the links as the command line of `mto` has them.

        Args:
            home: where the relay of the launching machine is reached, `HOST:PORT`.
        """
        links = [(home, self.home), *((str(path.address), path) for path in self.dialled)]
        return [word for address, path in links for word in ("--link", link_word(address, path))]


def links_of(plan: Plan, site: str, clusters: dict[str, str], home: Collection[str]) -> RelayLinks:
    """Return the links of the relay of a site.

    Args:
        clusters: the clusters that sites are parts of, whose relay is theirs too; a site that is missing is its own.
        home: the sites of the launching machine. Its relay dials nobody.
    """
    to_home: list[PlannedPath] = []
    dialled: dict[str, PlannedPath] = {}
    clear_from: set[str] = set()
    for path in plan.paths:
        dialler, taker = (clusters.get(name, name) for name in path.between)
        ends_here = [end in home for end in (dialler, taker)]
        if dialler == taker or all(ends_here):
            continue
        if any(ends_here):
            if site in home:
                clear_from |= set() if path.encrypt else {dialler, taker}.difference(home)
            elif site in (dialler, taker):
                to_home.append(path)
        elif dialler == site and path.address is not None:
            dialled.setdefault(path.address, path)
        elif taker == site and not path.encrypt:
            clear_from.add(dialler)
    return RelayLinks(to_home[0] if to_home else None, tuple(dialled.values()), frozenset(clear_from))


def link_word(address: str, path: PlannedPath | None) -> str:
    """Return a link as the option `--link` of `mto` has it."""
    if path is None:
        return f"{address},encrypt=true"
    streams = [] if path.streams is None else [f"streams={path.streams}"]
    figures = [f"latency_s={float(path.latency_s)!r}", f"bandwidth_b_s={float(path.bandwidth)!r}"]
    return ",".join([address, *streams, f"encrypt={'true' if path.encrypt else 'false'}", *figures])
