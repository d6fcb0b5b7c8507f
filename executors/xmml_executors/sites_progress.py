"""What goes on at the sites of a run while it ends."""

from __future__ import annotations


class SitesProgress:
    """What goes on at each site where something goes on.

    >>> progress = SitesProgress()
    >>> progress.update("gamma", "fetching results")
    >>> progress.update("beta", "removing what the run has there")
    >>> progress.update("alpha", "fetching results, 1.0 of 9.0 MB")
    >>> progress.update("gamma", "")
    >>> str(progress)
    'alpha: fetching results, 1.0 of 9.0 MB; beta: removing what the run has there'
    """

    def __init__(self) -> None:
        self._doing: dict[str, str] = {}

    def update(self, site: str, doing: str) -> None:
        """Say what goes on at a site; empty if nothing goes on there any more."""
        if doing:
            self._doing[site] = doing
        else:
            self._doing.pop(site, None)

    def __str__(self) -> str:
        return "; ".join(f"{site}: {doing}" for site, doing in sorted(self._doing.items()))

    def __bool__(self) -> bool:
        return bool(self._doing)
