"""The test bed: sites, laptop, and what lies between them."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import LIMIT_S
from wan import Machine, PlacedSite, Site, Wan
from wan.folder import folder_that_goes
from wan.standing import Standing

from testbed.accounts import User, write_accounts
from testbed.files import INSTALLED, mount_script
from testbed.leftovers import present, processes, wait_until_clean
from testbed.slurm import CORES, GPUS, MEMORY_MB, Slurm

#: The ports at which relays of the sites may dial each other.
RELAY_PORTS = (40000, 40999)
PORT = 22
SOFTWARE = ("openmpi", "openfoam")

_SSHD = """\
Port 22
HostKey /mnt/etc/ssh_host_key
PidFile /run/sshd.pid
AuthorizedKeysFile .ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PermitRootLogin no
UseDNS no
PrintMotd no
MaxStartups 50:30:200
MaxSessions 10
LogLevel VERBOSE
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class SiteKind:
    """A site as it is asked for: compute nodes mean that it has a Slurm, which takes each for one of so many cores, or
    binds programs to the one that each has."""

    name: str
    users: tuple[User, ...]
    nodes: int
    open_ports: tuple[int | tuple[int, int], ...]
    cores: int = CORES
    is_bound: bool = False


SITES = (
    SiteKind("alpha", (User("alice", 20001), User("bob", 20002)), 2, (PORT, RELAY_PORTS)),
    SiteKind("beta", (User("asmith", 30007), User("bsmith", 30008)), 2, (PORT, RELAY_PORTS)),
    SiteKind("gamma", (User("carol", 40003), User("dan", 40004)), 0, (PORT,)),
)


class LoginSite:
    """A site with a login node: here, one without a batch system."""

    def __init__(self, kind: SiteKind, placed: PlacedSite, folder: Path) -> None:
        self.kind = kind
        self.name = kind.name
        self.users = kind.users
        self.login = placed.login
        self.placed = placed
        self.shared = folder

    @property
    def machines(self) -> list[Machine]:
        """The login node and the compute nodes."""
        return self.placed.machines

    def home(self, user: User | None = None) -> Path:
        """A user's home directory, as the test sees it from outside."""
        return self.shared / "home" / (user or self.users[0]).name

    def run(self, command: str, user: User | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run shell text on the login node as one of its users."""
        return self.login.run(as_user(user or self.users[0], command), cwd="/", **options)

    def prepare(self, public_key: str, hosts: str) -> None:
        """Write the files of the site."""
        etc = self.shared / "etc"
        for folder in ("etc", "log", "home", "modules"):
            (self.shared / folder).mkdir()
        self.shared.chmod(0o755)
        write_accounts(etc, list(self.users))
        (etc / "hosts").write_text(hosts)
        self.set_host_key()
        (etc / "sshd_config").write_text(_SSHD)
        for user in self.users:
            home = self.home(user)
            (home / ".ssh").mkdir(parents=True)
            (home / ".ssh" / "authorized_keys").write_text(public_key)
            (home / ".bash_profile").write_text(
                "[ -r /etc/profile.d/modules.sh ] && . /etc/profile.d/modules.sh && module use /opt/modules\n"
            )
            for path in (home, *home.rglob("*")):
                os.chown(path, user.number, user.number)
            home.chmod(0o700)
            (home / ".ssh").chmod(0o700)
        for software in SOFTWARE:
            (self.shared / "modules" / software).write_text(
                f"#%Module1.0\nsetenv {software.upper()}_LOADED {self.name}\n"
            )

    def set_host_key(self) -> str:
        """Give the login node a new host key; return its public part. sshd reads it when it starts."""
        private = self.shared / "etc" / "ssh_host_key"
        private.unlink(missing_ok=True)
        _make_key(private)
        return private.with_suffix(".pub").read_text()

    def temporary(self, machine: Machine) -> dict[str, Path]:
        """The folders for temporary files of a machine, by their names there, each as it is seen from outside.

        /tmp is seen without what is mounted below it, which is xMML itself if the repository lies in /tmp.
        """
        return {
            "/tmp": self.shared.parent / f"{machine.name}.tmp",
            "/dev/shm": Path(f"/proc/{machine.pid}/root/dev/shm"),
        }

    def mount(self, machine: Machine) -> None:
        """Let a machine see the files of its site."""
        own = self.temporary(machine)["/tmp"]
        own.mkdir()
        own.chmod(0o1777)
        machine.run(
            ["sh", "-ec", mount_script(self.shared, own, ["passwd", "group", "shadow"])], cwd="/", env=_ENVIRONMENT
        )

    def start_sshd(self) -> None:
        """Let people log in."""
        self.login.run(
            ["sh", "-ec", "mkdir -p /run/sshd; exec /usr/sbin/sshd -f /mnt/etc/sshd_config -E /mnt/log/sshd.log"],
            cwd="/",
            env=_ENVIRONMENT,
        )

    def stop_sshd(self) -> None:
        """Let nobody in any more; those who are in stay."""
        words = "kill $(cat /run/sshd.pid); while [ -e /run/sshd.pid ]; do sleep 0.02; done"
        self.login.run(["sh", "-ec", words], cwd="/")

    def start(self) -> None:
        """Start what runs at the site."""
        self.mount(self.login)
        self.start_sshd()

    def toml(self, ssh: str) -> str:
        """Its table in a sites.toml."""
        return (
            f'[site.{self.name}]\nssh = "{ssh}"\ncores = 2\nmemory = "4 GiB"\n'
            f'python = "{INSTALLED}/bin/python"\nmpi = "mpirun"\n'
        )


class Cluster(LoginSite):
    """A site with a Slurm."""

    def __init__(self, kind: SiteKind, placed: PlacedSite, folder: Path) -> None:
        super().__init__(kind, placed, folder)
        self.slurm = Slurm(placed, folder, kind.cores, is_bound=kind.is_bound)

    def prepare(self, public_key: str, hosts: str) -> None:
        super().prepare(public_key, hosts)
        self.slurm.prepare()
        (self.shared / "munge.key").touch(0o600)
        (self.shared / "munge.key").write_bytes(secrets.token_bytes(128))

    def start(self) -> None:
        for machine in self.machines:
            self.mount(machine)
        self.start_sshd()
        self.slurm.start()

    @contextlib.contextmanager
    def occupied(self) -> Iterator[Callable[[], None]]:
        """Within the block a job of the second user holds every node. The value ends the job sooner."""
        with self._held(f"-N{self.slurm.nodes} --exclusive") as end:
            yield end

    @contextlib.contextmanager
    def taken(self, node: str, cores: int) -> Iterator[None]:
        """Within the block a job of the second user holds cores of a node."""
        with self._held(f"-n{cores} --nodelist={node}"):
            yield

    @contextlib.contextmanager
    def _held(self, what: str) -> Iterator[Callable[[], None]]:
        words = f"sbatch --parsable {what} -t 100 -o /dev/null --wrap 'sleep 6000'"
        job = self.run(words, self.users[1]).stdout.strip()

        def end() -> None:
            self.run(f"scancel -Q {job}", self.users[1])

        try:
            yield end
        finally:
            end()

    def toml(self, ssh: str) -> str:
        return (
            f'[site.{self.name}]\nssh = "{ssh}"\nscheduler = "slurm"\npartition = "batch"\nnodes = {self.slurm.nodes}\n'
            f'cores = {self.slurm.cores}\nmemory = "{MEMORY_MB} MiB"\ngpus = {len(GPUS)}\nwalltime = "30 min"\n'
            f'python = "{INSTALLED}/bin/python"\n'
            f'mpi = "srun"\nsoftware = ["openfoam"]\n'
            f'[site.{self.name}.relay]\nhost = "{self.name}-login"\nlisten = "{self.name}:{RELAY_PORTS[0] + 1}"\n'
        )


class Bed(Standing):
    """The whole test bed; stands while its block lasts, or until the process that made it ends, however it ends.

    Args:
        rtt_s: there and back between any two of the sites and the laptop.
        rate_bit_s: of each such link and direction.
        is_open: compute nodes may dial out, and everybody may dial the laptop, which the sites know as `laptop`.
    """

    def __init__(
        self,
        *,
        rtt_s: float = 0.01,
        rate_bit_s: float | None = 1e9,
        kinds: Sequence[SiteKind] = SITES,
        mtu: int = 1500,
        is_open: bool = False,
    ) -> None:
        super().__init__()
        self._kinds = kinds
        self._wan = Wan(
            [
                *(Site(kind.name, nodes=kind.nodes, open_ports=kind.open_ports, nat=is_open) for kind in kinds),
                Site("laptop", open_ports=None if is_open else ()),
            ],
            rtt_s=rtt_s,
            rate_bit_s=rate_bit_s,
            mtu=mtu,
        )
        self.sites: dict[str, LoginSite] = {}
        self.at_first: set[str] = set()

    def wait_until_clean(self, limit_s: float = LIMIT_S) -> list[str]:
        """Wait until no job, reservation, process, file, port or socket is left at the sites, nor on the laptop; a
        line for each that is at the limit."""
        return wait_until_clean(self, limit_s)

    def clean(self) -> None:
        """Remove what a failed test has left, so that the next one finds the bed as it was."""
        for cluster in self.clusters:
            cluster.slurm.root("scancel -Q $(squeue -h -o %A)")
            for line in cluster.slurm.held()[1]:
                cluster.slurm.root(f"scontrol delete {line.split()[0]}")
        for pid in processes(self, *self.sites):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for site in self.sites.values():
            for user in site.users:
                words = "find ~ -mindepth 1 -not -path '*/.ssh*' -not -name .bash_profile -delete"
                site.run(words, user, check=False)
            for machine in site.machines:
                machine.run(["sh", "-c", "rm -rf /tmp/* /dev/shm/*"], cwd="/", check=False)
        for each in self.temporary.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        for cluster in self.clusters:
            cluster.slurm.settle()

    @property
    def temporary(self) -> Path:
        """The folder for temporary files of whoever works on the laptop, if TMPDIR says so."""
        return self.folder / "temporary"

    def site(self, name: str) -> LoginSite:
        """A site by its name."""
        return self.sites[name]

    def cluster(self, name: str) -> Cluster:
        """A site that has a Slurm."""
        site = self.sites[name]
        assert isinstance(site, Cluster)
        return site

    @contextlib.contextmanager
    def another_host_key(self, name: str) -> Iterator[None]:
        """Within the block the laptop knows the host key of another site as that of this one."""
        known = self.folder / "ssh" / "known_hosts"
        before = known.read_text()
        rows = dict(line.split(" ", 1) for line in before.splitlines())
        row = next(each for each in rows if each.startswith(f"{name},"))
        other = next(key for each, key in rows.items() if each != row)
        known.write_text(before.replace(rows[row], other))
        try:
            yield
        finally:
            known.write_text(before)

    @property
    def clusters(self) -> list[Cluster]:
        """The sites that have a Slurm."""
        return [site for site in self.sites.values() if isinstance(site, Cluster)]

    @property
    def laptop(self) -> Machine:
        """The user's machine: nobody can dial in. It sees the files of the machine underneath, but for ~/.ssh."""
        return self._wan["laptop"].login

    @property
    def wan(self) -> Wan:
        """The network, to cut and to slow down."""
        return self._wan

    def ssh_config_outside(self) -> Path:
        """A configuration for ssh with addresses instead of names, for who is in the laptop's network only."""
        folder = self.folder / "ssh"
        config = self.folder / "ssh" / "config_outside"
        if not config.exists():
            text = (folder / "config").read_text()
            for site in self.sites.values():
                text = text.replace(f"  HostName {site.name}\n", f"  HostName {site.placed.address}\n")
            known = f"  IdentityFile {folder}/id_ed25519\n  UserKnownHostsFile {folder}/known_hosts\n"
            config.write_text(text + f"  IdentitiesOnly yes\n{known}")
        return config

    def _build(self, parts: contextlib.ExitStack) -> None:
        self.folder = parts.enter_context(folder_that_goes("xmml-sites-"))
        self.folder.chmod(0o711)
        parts.enter_context(self._wan)
        ssh = self.folder / "ssh"
        ssh.mkdir(mode=0o700)
        self.temporary.mkdir(mode=0o700)
        _make_key(ssh / "id_ed25519")
        public = (ssh / "id_ed25519.pub").read_text()
        for kind in self._kinds:
            folder = self.folder / kind.name
            folder.mkdir()
            placed = self._wan[kind.name]
            site = (Cluster if kind.nodes else LoginSite)(kind, placed, folder)
            site.prepare(public, "")
            self.sites[kind.name] = site
        self.learn_host_keys()
        self._write_ssh_config()
        Path.home().joinpath(".ssh").mkdir(mode=0o700, exist_ok=True)
        self.laptop.run(["mount", "--bind", str(ssh), str(Path.home() / ".ssh")], cwd="/")
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(site.start) for site in self.sites.values()]:
                done.result()
        self.at_first = present(self, *self.sites)

    def learn_host_keys(self) -> None:
        """Let the laptop know the present host keys, and no others."""
        lines = []
        for site in self.sites.values():
            key = " ".join((site.shared / "etc" / "ssh_host_key.pub").read_text().split()[:2])
            lines.append(f"{site.name},{site.placed.address} {key}\n")
        (self.folder / "ssh" / "known_hosts").write_text("".join(lines))

    def _write_ssh_config(self) -> None:
        text = []
        for site in self.sites.values():
            for user in site.users:
                alias = site.name if user is site.users[0] else f"{site.name}-{user.name}"
                text.append(f"Host {alias}\n  HostName {site.name}\n  HostKeyAlias {site.name}\n  User {user.name}\n")
        text.append("Host *\n  StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 10\n")
        config = self.folder / "ssh" / "config"
        config.write_text("".join(text))
        config.chmod(0o600)

    def sites_toml(self, *names: str, second_user: bool = False) -> str:
        """A sites.toml of some sites (default: all, and the laptop as `laptop`)."""
        chosen = names or (*self.sites, "laptop")
        text = []
        for name in chosen:
            if name == "laptop":
                text.append(f'[site.laptop]\ncores = 4\npython = "{sys.executable}"\n')
            else:
                site = self.sites[name]
                alias = f"{name}-{site.users[1].name}" if second_user else name
                text.append(site.toml(alias))
        return "\n".join(text)

    @property
    def machines(self) -> dict[str, Machine]:
        """Every machine by its name: `alpha-login`, `alpha1`, `gamma-login`, `laptop`."""
        placed = [machine for site in self.sites.values() for machine in site.machines]
        return {"laptop": self.laptop, **{machine.name: machine for machine in placed}}


def as_user(user: User, command: str) -> list[str]:
    """A command that runs shell text as a user of the site, with the environment of a login."""
    return [
        *["setpriv", f"--reuid={user.number}", f"--regid={user.number}", "--clear-groups", "--reset-env"],
        *["sh", "-c", f"cd; export HOME=/home/{user.name} USER={user.name}; cd; {command}"],
    ]


_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def _make_key(path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test bed", "-f", str(path)],
        check=True,
        stdin=subprocess.DEVNULL,
    )
