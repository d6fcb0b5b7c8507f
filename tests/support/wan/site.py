"""What a site is made of, and what its firewall lets through."""

from __future__ import annotations

from dataclasses import dataclass

Ports = tuple[int | tuple[int, int], ...]


@dataclass(frozen=True)
class Site:
    """A site as it is asked for.

    `nodes` compute nodes see each other and their login node, nothing else; `nat` lets them dial out through it. From
    other sites only the TCP ports `open_ports` of the login node can be reached (numbers or ranges; empty: none), or
    all (None); `dials_out` says whether the login node may open connections to other sites.
    """

    name: str
    nodes: int = 0
    open_ports: Ports | None = ()
    dials_out: bool = True
    nat: bool = False


def rules(site: Site) -> str:
    """The firewall of the login node, for nft."""
    inbound = "accept"
    if site.open_ports is not None:
        ports = ", ".join(str(port) if isinstance(port, int) else f"{port[0]}-{port[1]}" for port in site.open_ports)
        inbound = f"tcp dport {{ {ports} }} accept" if ports else ""
    outbound = "" if site.dials_out else 'oifname "wan0" ct state new ip protocol tcp drop'
    forward = 'iifname "lan" accept' if site.nat else ""
    masquerade = 'oifname "wan0" masquerade' if site.nat else ""
    return f"""
table ip site {{
    chain inbound {{
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        iifname != "wan0" accept
        ip protocol icmp accept
        {f'iifname "wan0" {inbound}' if inbound else ""}
    }}
    chain outbound {{
        type filter hook output priority 0; policy accept;
        {outbound}
    }}
    chain through {{
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname "lan" oifname "lan" accept
        {forward}
    }}
    chain masked {{
        type nat hook postrouting priority 100; policy accept;
        {masquerade}
    }}
}}
"""
