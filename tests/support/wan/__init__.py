"""A wide-area network on one machine: sites with login and compute nodes, firewalls, links with delay, rate and loss.

    with Wan([Site("a", nodes=2, open_ports=(40001,)), Site("b", nodes=1)], rtt_s=0.0152, rate_bit_s=1e9) as wan:
        server = wan["a"].login.start(["my-server", "--port", "40001"])
        wan["b"].login.run(["my-client", wan["a"].address, "40001"])
        wan.link("a", "b").cut()

tests/testbed/wan/README.md says how it works and how exact it is.
"""

from wan.link import Direction, Figures, Link
from wan.machine import Connection, Machine, MachineProcess
from wan.network import PlacedSite, Wan
from wan.programs import why_not
from wan.site import Site

__all__ = [
    "Connection",
    "Direction",
    "Figures",
    "Link",
    "Machine",
    "MachineProcess",
    "PlacedSite",
    "Site",
    "Wan",
    "why_not",
]
