"""An OpenPBS that somebody has built and installed: a server with two nodes, on machines of their own."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from waiting import LIMIT_S, wait_until
from wan import Machine, PlacedSite, Site, Wan
from wan.folder import folder_that_goes
from wan.programs import why_not as no_network
from wan.standing import Standing

#: Where `make install` of OpenPBS puts it, unless told otherwise.
INSTALLED = Path("/opt/pbs")
CORES = 2
_NAME = "pbs"
#: Folders of the machine underneath are seen on all machines, as on a cluster; so no file need be copied.
_NODE = "$usecp *:/ /\n"
_CONFIGURATION = """\
PBS_EXEC={installed}
PBS_HOME=/run/pbs
PBS_SERVER={name}-login
PBS_START_SERVER=1
PBS_START_SCHED=1
PBS_START_COMM=1
PBS_START_MOM=0
PBS_CORE_LIMIT=unlimited
PBS_SCP=/usr/bin/scp
"""
_ENVIRONMENT = {
    "PATH": f"{INSTALLED}/bin:{INSTALLED}/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}


def why_not() -> str | None:
    """Why it cannot stand here, and what to do about it; None if it can."""
    if not (INSTALLED / "sbin/pbs_server").exists():
        return f"OpenPBS is not in {INSTALLED}: build it (github.com/openpbs/openpbs), with PostgreSQL for its server"
    return no_network()


class OpenPbs(Standing):
    """Stands while its block lasts. Whoever made it may submit jobs on `login`, also as root."""

    def _build(self, parts: contextlib.ExitStack) -> None:
        self._folder = parts.enter_context(folder_that_goes("xmml-pbs-"))
        self._folder.chmod(0o755)
        self._wan = parts.enter_context(Wan([Site(_NAME, nodes=2)]))
        site: PlacedSite = self._wan[_NAME]
        self.login = site.login
        self._prepare(self.login)
        self._operate(self.login, f"{INSTALLED}/libexec/pbs_init.d start")
        parts.callback(self._operate, self.login, f"{INSTALLED}/libexec/pbs_init.d stop", check=False)
        settings = [
            "set server acl_roots = root@*",
            "set server job_history_enable = True",
            "set server scheduler_iteration = 5",
            *(f"create node {node.name}" for node in site.nodes),
            *(f"set node {node.name} resources_available.ncpus = {CORES}" for node in site.nodes),
        ]
        for node in site.nodes:
            self._prepare(node)
            version = self._operate(node, "qstat --version").split()[-1]
            make = f"{INSTALLED}/libexec/pbs_postinstall execution {version} {INSTALLED} /run/pbs sameconf"
            self._operate(node, make)
            self._operate(node, f"printf '{_NODE}' > /run/pbs/mom_priv/config; {INSTALLED}/sbin/pbs_mom")
        for each in settings:
            self._operate(self.login, f"qmgr -c '{each}'")

        def are_free() -> bool:
            return self._operate(self.login, "pbsnodes -a", check=False).count("state = free") == len(site.nodes)

        wait_until(are_free, lambda: self._operate(self.login, "pbsnodes -a", check=False), 2 * LIMIT_S, 0.2)

    def _prepare(self, machine: Machine) -> None:
        """Give a machine its folder, and the files that the packages of OpenPBS install."""
        home = self._folder / machine.name
        home.mkdir()
        Path(f"/proc/{machine.pid}/root/etc/pbs.conf").write_text(
            _CONFIGURATION.format(installed=INSTALLED, name=_NAME)
        )
        shutil.copy(INSTALLED / "etc/pbs.sh", f"/proc/{machine.pid}/root/etc/profile.d/pbs.sh")
        words = f"mkdir -p /run/pbs /run/postgresql; chown postgres /run/postgresql; mount --bind {home} /run/pbs"
        self._operate(machine, words)

    def _operate(self, machine: Machine, command: str, *, check: bool = True) -> str:
        """Return what a command of root says."""
        done = machine.run(
            ["sh", "-ec", f"{{ {command}; }} </dev/null"], cwd="/", env=_ENVIRONMENT, check=check, timeout_s=300
        )
        return done.stdout + done.stderr
