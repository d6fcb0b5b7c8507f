"""The sites that a model can run on, as a `sites.toml` describes them.

>>> from xmml_planner.sites import read_sites
>>> read_sites("sites.toml")["alpha"].cores  # doctest: +SKIP
4
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xmml_planner.sites.catalogue import (
    HERE,
    AllocatedNodes,
    Link,
    RelaySite,
    Site,
    SiteCatalogue,
    local_catalogue,
)

if TYPE_CHECKING:
    from xmml_planner.sites.reading import SitesError, read_sites, sites_from_text

__all__ = [
    "HERE",
    "AllocatedNodes",
    "Link",
    "RelaySite",
    "Site",
    "SiteCatalogue",
    "SitesError",
    "local_catalogue",
    "read_sites",
    "sites_from_text",
]


def __getattr__(name: str) -> Any:
    """Load the reader when it is first asked for: most runs have no file of sites."""
    if name not in ("SitesError", "read_sites", "sites_from_text"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from xmml_planner.sites import reading

    return getattr(reading, name)
