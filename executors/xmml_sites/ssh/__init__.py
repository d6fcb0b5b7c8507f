"""Ways to a site: one interface, over asyncssh, over OpenSSH's own client, or none because the site is this machine."""

from __future__ import annotations

from xmml_sites.ssh.destination import read_destination
from xmml_sites.ssh.failure import (
    AuthenticationFailed,
    CommandExited,
    ConfigurationProblem,
    ConnectionLost,
    HostKeyChanged,
    HostKeyProblem,
    HostKeyUnknown,
    NoAnswer,
    RemoteFileError,
    SiteUnreachable,
    TooMuchOutput,
    TransportError,
)
from xmml_sites.ssh.transport import Forwarding, OwnProcess, RemoteProcess, SiteAccess, Transport

__all__ = [
    "AuthenticationFailed",
    "CommandExited",
    "ConfigurationProblem",
    "ConnectionLost",
    "Forwarding",
    "HostKeyChanged",
    "HostKeyProblem",
    "HostKeyUnknown",
    "NoAnswer",
    "OwnProcess",
    "RemoteFileError",
    "RemoteProcess",
    "SiteAccess",
    "SiteUnreachable",
    "TooMuchOutput",
    "Transport",
    "TransportError",
    "open_transport",
]


def open_transport(site: SiteAccess) -> Transport:
    """The way to a site; the connection is made when it is first used, or by `connect`.

    Raises:
        ConfigurationProblem: the site's description leads nowhere.
    """
    if site.ssh is None:
        from xmml_sites.ssh.local import LocalTransport

        return LocalTransport(site.name)
    try:
        destination = read_destination(site.ssh)
    except ValueError as error:
        raise ConfigurationProblem(site.name, f"its ssh leads nowhere: {error}") from None
    if site.transport == "openssh":
        from xmml_sites.ssh.openssh_transport import OpensshTransport

        return OpensshTransport(site.name, destination)
    if site.transport == "asyncssh":
        from xmml_sites.ssh.asyncssh_transport import AsyncsshTransport

        return AsyncsshTransport(site.name, destination)
    raise ConfigurationProblem(site.name, f"there is no transport {site.transport!r}, only asyncssh and openssh")
