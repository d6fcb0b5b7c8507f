"""Which sites an instance can be at, looked at alone, and why not at the others."""

from __future__ import annotations

from collections.abc import Sequence

from xmml.late_dataclass import dataclass
from xmml_planner.placement.demands import Unit
from xmml_planner.sites.catalogue import Site


@dataclass(frozen=True)
class Shortage:
    """Something that a site lacks.

    Attributes:
        what: of what, in words: "cores on one node".
        needed, there: how much; both 0 for what is there or not.
    """

    site: str
    what: str
    needed: float = 0
    there: float = 0

    def __str__(self) -> str:
        if not self.needed:
            return f"{self.site}: {self.what}"
        return f"{self.site}: {self.what}, {amount(self.there, self.what)} of {amount(self.needed, self.what)}"


def shortages(unit: Unit, site: Site) -> list[Shortage]:
    """Return why one copy of a unit cannot be at a site; nothing if it can."""
    found = []
    if unit.wish is not None and unit.wish != site.name:
        found.append(Shortage(site.name, f"it is wished to be at {unit.wish}"))
    missing = [name for name in unit.needs if name not in site.software]
    if missing:
        found.append(Shortage(site.name, f"has no {' and no '.join(missing)}"))
    for what, needed, there in (
        ("too few cores on a node", unit.cores_of_rank, site.cores),
        ("too few GPUs on a node", unit.gpus_of_rank, site.gpus),
        ("too little memory on a node", unit.memory_of_rank, site.memory_bytes),
        ("too few cores", unit.cores, site.all_cores),
        ("too few GPUs", unit.gpus, site.all_gpus),
        ("too little memory", unit.memory_bytes, None if site.memory_bytes is None else site.nodes * site.memory_bytes),
    ):
        if there is not None and needed > there and not any(each.what.startswith(what) for each in found):
            found.append(Shortage(site.name, what, needed, there))
    return found


def possible_sites(units: Sequence[Unit], sites: Sequence[Site]) -> list[tuple[str, ...]]:
    """Return by unit the names of the sites that a copy of it can be at, looked at alone, in the order of `sites`.

    Units with the same needs have the same sites, which are looked for once.
    """
    of_needs: dict[object, tuple[str, ...]] = {}
    found = []
    for unit in units:
        amounts = unit.cores, unit.cores_of_rank, unit.memory_bytes, unit.memory_of_rank, unit.gpus, unit.gpus_of_rank
        key = unit.wish, unit.needs, amounts
        if key not in of_needs:
            of_needs[key] = tuple(site.name for site in sites if not shortages(unit, site))
        found.append(of_needs[key])
    return found


def amount(number: float, what: str) -> str:
    """Return an amount in words, memory in a unit that fits."""
    if "memory" not in what:
        return f"{number:g}"
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number:g} B"
