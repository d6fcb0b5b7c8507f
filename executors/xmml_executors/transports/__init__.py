"""Ways to a site: one interface, over asyncssh, over OpenSSH's own client, or none because the site is this machine."""

from __future__ import annotations

from xmml_executors.transports.destination import read_destination
from xmml_executors.transports.failure import (
    AuthenticationFailed,
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
from xmml_executors.transports.transport import Forwarding, Place, RemoteProcess, Transport

__all__ = [
    "AuthenticationFailed",
    "ConfigurationProblem",
    "ConnectionLost",
    "Forwarding",
    "HostKeyChanged",
    "HostKeyProblem",
    "HostKeyUnknown",
    "NoAnswer",
    "Place",
    "RemoteFileError",
    "RemoteProcess",
    "SiteUnreachable",
    "TooMuchOutput",
    "Transport",
    "TransportError",
    "open_transport",
]


def open_transport(site: Place) -> Transport:
    """The way to a site; the connection is made when it is first used, or by `connect`.

    Raises:
        ConfigurationProblem: the site's description leads nowhere.
    """
    if site.ssh is None:
        from xmml_executors.transports.local import LocalTransport

        return LocalTransport(site.name)
    try:
        destination = read_destination(site.ssh)
    except ValueError as error:
        raise ConfigurationProblem(site.name, f"its ssh leads nowhere: {error}") from None
    if site.transport == "openssh":
        from xmml_executors.transports.over_openssh import OpensshTransport

        return OpensshTransport(site.name, destination)
    if site.transport == "asyncssh":
        from xmml_executors.transports.over_asyncssh import AsyncsshTransport

        return AsyncsshTransport(site.name, destination)
    raise ConfigurationProblem(site.name, f"there is no transport {site.transport!r}, only asyncssh and openssh")
