"""Domains: which parts of the problem the instances compute, as a tree of dotted paths.

The parent of `artery.tissue` is `artery`; what has no domain is at the root. A domain is named by its full path, so two
leaves of one name stay two domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from xmml.late_dataclass import dataclass
from xmml.model import Instance, Model

#: The path of the root, where everything is that has no domain.
ROOT = ""


@dataclass(frozen=True)
class Domain:
    """One domain.

    Attributes:
        path: its full dotted path, "" for the root.
        children: the paths directly below it, in order.
        instances: ids of the instances that compute just this domain.
        couplings: places in `Model.couplings` of those whose ends have this as their lowest common domain.
    """

    path: str
    children: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    couplings: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path; "None" for the root."""
        return self.path.rpartition(".")[2] or "None"


def domains(model: Model) -> Mapping[str, Domain]:
    """Return all domains by path, the root first, parents before children.

    Every instance is in one domain, and every coupling in the lowest one that holds both its ends. Linear in instances
    and couplings times the depth of the paths.
    """
    children: dict[str, set[str]] = {ROOT: set()}
    instances: dict[str, list[str]] = {}
    couplings: dict[str, list[int]] = {}
    for instance in model.instances.values():
        path = domain_of(instance)
        instances.setdefault(path, []).append(instance.id)
        for above in (path, *ancestors(path)):
            if above == ROOT:
                break
            children.setdefault(above, set())
            children.setdefault(parent(above), set()).add(above)
    for number, coupling in enumerate(model.couplings):
        ends = (model.instances[end.instance] for end in (coupling.sender, coupling.receiver))
        couplings.setdefault(lowest_common(*map(domain_of, ends)), []).append(number)
    order = sorted(children, key=lambda path: path.split(".") if path else [])
    return MappingProxyType(
        {
            path: Domain(
                path,
                tuple(sorted(children[path])),
                tuple(instances.get(path, ())),
                tuple(couplings.get(path, ())),
            )
            for path in order
        }
    )


def domain_of(instance: Instance) -> str:
    """Return the path of the domain that an instance computes."""
    return instance.domain or ROOT


def parent(path: str) -> str:
    """Return the path of the domain around a domain; that of the root is the root."""
    return path.rpartition(".")[0]


def ancestors(path: str) -> list[str]:
    """Return the paths of the domains around a domain, from the next one to the root."""
    found = []
    while path != ROOT:
        path = parent(path)
        found.append(path)
    return found


def lowest_common(one: str, other: str) -> str:
    """Return the path of the smallest domain that holds both."""
    first, second = one.split("."), other.split(".")
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    return ".".join(first[:common])


def kind_of_coupling(one: Instance, other: Instance) -> Literal["single-domain", "multi-domain"]:
    """Return whether two instances compute the same domain, or one a part of the other's, or different domains."""
    first, second = domain_of(one), domain_of(other)
    return "single-domain" if lowest_common(first, second) in (first, second) else "multi-domain"
