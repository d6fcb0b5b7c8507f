"""Beginning a launch: the journal, and the executor that a run over sites needs."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from xmml_native.machine import start_of
from xmml_planner import Plan

from xmml_executors.executor import Executor
from xmml_executors.launch.site.journal import Journal
from xmml_executors.launch.site.timeouts import site_timeout_s
from xmml_executors.local import LocalExecutor
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder
from xmml_executors.stop_signals import StopRequests

if TYPE_CHECKING:
    from xmml_executors.launch.site_pool import SitePool

#: A port that need not be open: nothing is sent there.
DISCARD_PORT = 9


def is_over_sites(plan: Plan) -> bool:
    """Whether something of the plan does not simply run as a process of this machine."""
    return any(not site.is_here or site.has_queue for site in plan.sites)


def listen_at(plan: Plan, wanted: str | None) -> str | None:
    """Return where the coordinator listens over TCP: where it is told to, else for a run over sites at any port: in an
    allocation of an address that its other nodes reach, else of the loopback device, to which the ssh connections of
    sites lead."""
    if wanted or not is_over_sites(plan):
        return wanted
    allocations = [site.allocation for site in plan.sites if site.allocation is not None]
    others = [host for each in allocations for host in each.hosts[each.has_launcher :]]
    return f"{address_towards(others[0])}:0" if others else "127.0.0.1:0"


def address_towards(host: str) -> str:
    """Return the address of this machine from which another one is reached.

    Raises:
        SiteError: the name of that machine is not known here.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, DISCARD_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)  # sends nothing
            own = str(probe.getsockname()[0])
    except OSError as error:
        raise SiteError(f"no way leads from this machine to the node {host} of its job: {error.strerror}") from None
    return f"[{own}]" if ":" in own else own


def executor_for(
    plan: Plan,
    folder: RunFolder,
    journal: Journal | None = None,
    *,
    is_direct: bool = False,
    strategy: str | None = None,
    stop: StopRequests | None = None,
    pool: SitePool | None = None,
) -> Callable[[OpenFolder], Executor]:
    """Return what makes the executor of a run.

    Args:
        journal: of the run, if it was interrupted and goes on.
        is_direct: every site can reach the address at which the coordinator was told to listen.
        strategy: how the jobs are got together; `None`: as the sites allow it best.
        stop: stops the run; `None`: signals do.
        pool: what the run shares with others; `None`: nothing.
    """
    if not is_over_sites(plan):
        return LocalExecutor

    def make(files: OpenFolder) -> Executor:
        from xmml_executors.launch.launcher import Launcher
        from xmml_executors.launch.multi_site_executor import MultiSiteExecutor

        site_timeout_s(is_direct=is_direct)  # what cannot be is refused before anything is begun
        ours = journal or Journal(files)
        ours.write("launch", run=folder.run_id, pid=os.getpid(), started=start_of(os.getpid()))
        local = LocalExecutor(files)  # before something is begun that would have to be ended if this cannot be
        launcher = Launcher(plan, folder, ours, ours.past, is_direct=is_direct, strategy=strategy, stop=stop, pool=pool)
        return MultiSiteExecutor(folder, ours, local, launcher)

    return make
