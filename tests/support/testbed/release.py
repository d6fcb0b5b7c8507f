"""Whether everything is given back after a run: in time, at the sites and on the laptop."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from waiting import wait_until
from wan.soak import LONG

from testbed.leftovers import wait_until_clean

if TYPE_CHECKING:
    from testbed.bed import Bed
    from testbed.pair import Run

#: Sites are released within 10 seconds of a failure on a quiet machine, and on a busy one long before they release
#: themselves, which they do when they have not heard of the launcher for 90 s (LEASE_S in
#: executors/xmml_executors/launch/site/timeouts.py).
RELEASED_WITHIN_S = 10.0 if LONG else 60.0


def jobs_of(bed: Bed, site: str) -> list[str]:
    """The jobs that hold cores of a cluster: each with its state and the node."""
    return bed.cluster(site).slurm.root("squeue -h -t running,suspended,configuring -o '%i %T %N'").splitlines()


@contextmanager
def released(run: Run, *names: str, within_s: float = RELEASED_WITHIN_S) -> Iterator[None]:
    """What happens in the block is the fault; within so long after its end the run is over and nothing of it is left
    at the named sites (default: at all of them), nor on the laptop."""
    yield
    check_released(run, *names, since=time.monotonic(), within_s=within_s)


def check_released(run: Run, *names: str, since: float, within_s: float = RELEASED_WITHIN_S) -> None:
    """The same for a fault that was there at the time `since`. How long it took is printed (`pytest -s`)."""
    bed = run.pair.bed
    clusters = [cluster.name for cluster in bed.clusters if cluster.name in (names or bed.sites)]

    def holding() -> list[str]:
        return [f"{name}: {job}" for name in clusters for job in jobs_of(bed, name)]

    wait_until(
        lambda: not holding(), lambda: f"not released: {holding()}\n{run.output}", since + within_s - time.monotonic()
    )
    released_s = time.monotonic() - since
    run.wait(since + within_s - time.monotonic())
    over_s = time.monotonic() - since
    left = left_after_a_run(bed, since + within_s - time.monotonic(), *names)
    assert left == [], f"left {within_s:g} s after the fault\n{run.output}"
    clean_s = time.monotonic() - since
    print(f"released after {released_s:.1f} s, over {over_s:.1f} s, clean {clean_s:.1f} s: {run.lines[-1]}")


def left_after_a_run(bed: Bed, limit_s: float, *names: str) -> list[str]:
    """What is left at the named sites (default: at all of them) and on the laptop, but for what is kept for the next
    run: staged files, the key that seals run folders, and the link to the development kit where the path of the
    installation has spaces."""
    return wait_until_clean(bed, limit_s, *names, is_kept=_is_kept)


_KEPT = re.compile(
    r"file at \w+: ~\w+/(xmml|xmml/staged.*|\.local|\.local/share|\.local/share/xmml(/kit-\w+)?"
    r"|\.local/state|\.local/state/xmml(/run\.key)?)$"
)


def _is_kept(line: str) -> bool:
    return _KEPT.match(line) is not None


def is_file_of_a_run(line: str) -> bool:
    """Whether what is left is a file of a run, which does nothing."""
    return _is_kept(line) or re.match(r"file at \w+: ~\w+/xmml/", line) is not None
