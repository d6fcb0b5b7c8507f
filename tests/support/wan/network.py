"""The whole network: sites around one router, which delays, loses and holds."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from wan.folder import folder_that_goes
from wan.link import LEAST_QUEUE_B, Conditions, DelayLine, Direction, Link
from wan.machine import Machine
from wan.site import Site, rules
from wan.standing import Standing

LAN = "10.1.0"
"""The private network of every site, the same range everywhere as in real life: an address alone names nobody."""


RESERVED_PORTS = "40001-42999"
"""Programs of tests listen at these; no connection gets one of them as its own port by chance."""


class PlacedSite:
    """A site that stands. `address` is where other sites see its login node."""

    def __init__(self, site: Site, number: int, login: Machine, nodes: list[Machine]):
        self.site = site
        self.name = site.name
        self.address = wan_address(number)
        self.login = login
        self.nodes = nodes

    login_address = f"{LAN}.1"
    """Where the compute nodes see the login node."""

    def node(self, number: int) -> Machine:
        """A compute node, from 1."""
        return self.nodes[number - 1]

    def node_address(self, number: int) -> str:
        """Where machines of the same site see a compute node."""
        return f"{LAN}.{10 + number}"

    @property
    def machines(self) -> list[Machine]:
        return [self.login, *self.nodes]


class Wan(Standing):
    """A network that stands while its block lasts.

    All links begin alike: `rtt_s` for the way there and back, `rate_bit_s` in each direction, `loss` of single packets,
    `queue_b` for the bytes that may wait (default: what fills the link for one round trip, 256 KiB at least).
    `windows_b` limits the send and receive buffers of TCP on all machines, as small defaults do; `kernel` sets
    variables under /proc/sys/net on all of them.
    """

    def __init__(
        self,
        sites: Sequence[Site | str],
        *,
        rtt_s: float = 0.0,
        rate_bit_s: float | None = None,
        loss: float = 0.0,
        queue_b: int | None = None,
        mtu: int = 1500,
        seed: int = 1,
        windows_b: tuple[int, int] | None = None,
        kernel: Mapping[str, str] | None = None,
    ):
        super().__init__()
        self._asked = [Site(site) if isinstance(site, str) else site for site in sites]
        self._conditions = Conditions(rtt_s / 2, rate_bit_s, loss, queue_b or default_queue_b(rtt_s, rate_bit_s))
        self._mtu, self._seed = mtu, seed
        self._kernel = {"ipv4/ip_local_reserved_ports": RESERVED_PORTS, **(kernel or {})}
        if windows_b is not None:
            send, receive = windows_b
            self._kernel["ipv4/tcp_wmem"] = f"{min(4096, send)} {send} {send}"
            self._kernel["ipv4/tcp_rmem"] = f"{min(4096, receive)} {receive} {receive}"
        self._sites: dict[str, PlacedSite] = {}
        self._links: dict[frozenset[str], Link] = {}

    def __getitem__(self, site: str) -> PlacedSite:
        return self._sites[site]

    def link(self, one: str, other: str) -> Link:
        """The link between two sites."""
        return self._links[frozenset((one, other))]

    @property
    def links(self) -> list[Link]:
        return list(self._links.values())

    def _build(self, parts: contextlib.ExitStack) -> None:
        folder = parts.enter_context(folder_that_goes("xmml-wan-"))
        _copy_system_settings(folder / "etc")
        for number, site in enumerate(self._asked, 1):
            self._sites[site.name] = self._place(parts, folder, number, site)
        line = DelayLine(os.getpid(), self._mtu, self._seed, [each.login.pid for each in self._sites.values()])
        parts.callback(line.close)
        numbers = {site.name: number for number, site in enumerate(self._asked, 1)}
        for one, other in combinations(numbers, 2):
            self._links[frozenset((one, other))] = Link(
                {
                    target: Direction(line, numbers[origin], numbers[target], self._conditions)
                    for origin, target in ((one, other), (other, one))
                }
            )
        for placed in self._sites.values():
            self._connect(placed)

    def _place(self, parts: contextlib.ExitStack, folder: Path, number: int, site: Site) -> PlacedSite:
        names = [f"{site.name}-login", *(f"{site.name}{n}" for n in range(1, site.nodes + 1))]
        hosts = ["127.0.0.1 localhost", *(f"{wan_address(i)} {each.name}" for i, each in enumerate(self._asked, 1))]
        hosts += [f"{LAN}.1 {names[0]} login", *(f"{LAN}.{10 + n} {names[n]}" for n in range(1, len(names)))]
        hosts_file = _written(folder / f"{site.name}-hosts", "\n".join(hosts) + "\n")
        # Without a name server every look-up of a name that is not in the file would take ten seconds.
        resolver = _written(folder / "resolv.conf", "")
        switch = _written(folder / "nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
        machines = []
        for name in names:
            # Programs tell by the boot id whether two of them run on one machine.
            boot = _written(folder / f"{name}-boot-id", _boot_id(name))
            files = [
                (folder / "etc", "/etc"),
                (hosts_file, "/etc/hosts"),
                (resolver, "/etc/resolv.conf"),
                (switch, "/etc/nsswitch.conf"),
                (boot, "/proc/sys/kernel/random/boot_id"),
            ]
            machine = Machine(name, files)
            parts.callback(machine.crash)
            machines.append(machine)
        return PlacedSite(site, number, machines[0], machines[1:])

    def _connect(self, site: PlacedSite) -> None:
        login = site.login
        lines = [
            "link set lo up",
            f"addr add {site.address}/32 dev wan0",
            "link set wan0 up",
            f"route add 10.77.0.0/16 dev wan0 src {site.address}",
            "link add lan type bridge",
            f"addr add {LAN}.1/24 dev lan",
            "link set lan up",
        ]
        for number, node in enumerate(site.nodes, 1):
            lines += [
                f"link add n{number} type veth peer name eth0 netns {node.pid}",
                f"link set n{number} master lan up",
            ]
        login.configure_network(lines)
        login.configure_firewall(rules(site.site))
        forwarding = {"ipv4/ip_forward": "1"} if site.site.nat else {}
        login.configure_kernel({**self._kernel, **forwarding})
        for number, node in enumerate(site.nodes, 1):
            node.configure_network(
                [
                    "link set lo up",
                    f"addr add {site.node_address(number)}/24 dev eth0",
                    "link set eth0 up",
                    f"route add default via {LAN}.1",
                ]
            )
            node.configure_kernel(self._kernel)


def wan_address(number: int) -> str:
    """The address of the site of this number, from 1; the delay line knows the same."""
    return f"10.77.{number}.1"


def default_queue_b(rtt_s: float, rate_bit_s: float | None) -> int | None:
    """What fills a link for one round trip: the customary buffer of a router."""
    return None if rate_bit_s is None else max(LEAST_QUEUE_B, int(rtt_s * rate_bit_s / 8))


def _copy_system_settings(folder: Path) -> None:
    """Copy /etc for the machines of this network.

    Whoever installs a package on the machine underneath replaces files like /etc/passwd, and a file that is replaced
    loses what is mounted over it in every namespace.
    """
    # A file may vanish while it is copied, because packages are being installed; cp copies the others all the same.
    subprocess.run(["cp", "-a", "/etc", folder], stderr=subprocess.DEVNULL, check=False)


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _boot_id(name: str) -> str:
    return f"{uuid.uuid5(uuid.NAMESPACE_OID, f'{os.getpid()} {name}')}\n"
