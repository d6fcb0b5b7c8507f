"""What can go wrong between here and a site, by cause. Each text says what to do."""

from __future__ import annotations

from xmml_sites.ssh.destination import Destination

#: How much of what a command has written is shown [characters].
MOST_SHOWN = 300


class TransportError(Exception):
    """A site could not be used. `site` is its name."""

    def __init__(self, site: str, text: str) -> None:
        super().__init__(f"site {site}: {text}")
        self.site = site


class SiteUnreachable(TransportError):
    """No connection came about."""

    def __init__(self, site: str, destination: Destination, why: str) -> None:
        super().__init__(
            site,
            f"{destination} cannot be reached: {why}; check the address, the network and your VPN "
            f"with: {destination.command}",
        )


class HostKeyProblem(TransportError):
    """It is not certain that the machine is the one that it should be."""


class HostKeyUnknown(HostKeyProblem):
    """The host key of the machine is not known yet."""

    def __init__(self, site: str, destination: Destination, fingerprint: str = "") -> None:
        has = f" (it shows {fingerprint})" if fingerprint else ""
        super().__init__(
            site,
            f"the host key of {destination} is not known{has}; compare it with the one that the site publishes and "
            "accept it with: xmml sites check",
        )
        self.fingerprint = fingerprint


class HostKeyChanged(HostKeyProblem):
    """The machine has another key than before: either it was set up anew, or it is another one."""

    def __init__(self, site: str, destination: Destination, fingerprint: str = "") -> None:
        has = f" (it now shows {fingerprint})" if fingerprint else ""
        super().__init__(
            site,
            f"the host key of {destination} is not the one in your known_hosts{has}: somebody may be listening in. "
            "If the site says that it has a new key, remove the old one with ssh-keygen -R and accept the new one "
            "with: xmml sites check",
        )
        self.fingerprint = fingerprint


class AuthenticationFailed(TransportError):
    """The machine refuses the login."""

    def __init__(self, site: str, destination: Destination, why: str) -> None:
        super().__init__(
            site,
            f"{destination} did not let you in: {why}; load your key with ssh-add, check User and IdentityFile in "
            '~/.ssh/config; if the site asks for a second factor or Kerberos, use transport = "openssh" and log in '
            f"once with: {destination.command}",
        )


class ConfigurationProblem(TransportError):
    """The OpenSSH configuration asks for something that we do not do."""


class ConnectionLost(TransportError):
    """The connection broke. What became of the command that was under way is not known."""

    def __init__(self, site: str, why: str) -> None:
        super().__init__(site, f"the connection was lost ({why}); it is made again at the next command")


class CommandExited(TransportError):
    """A command has ended that still had something to say. `said`: what came in its place, if anything did."""

    def __init__(self, site: str, said: str = "") -> None:
        last = f"; its last output: {said}" if said else ""
        super().__init__(site, f"the command at the site exited before it was done{last}")
        self.said = said


class NoAnswer(TransportError):
    """A command did not end in time."""

    def __init__(self, site: str, command: str, limit_s: float) -> None:
        shown = " ".join(command.split())
        shown = shown if len(shown) <= 100 else shown[:97] + "..."
        super().__init__(site, f"no answer within {limit_s:g} s from: {shown}")


class RemoteFileError(TransportError):
    """Something could not be read, written or removed there."""

    def __init__(self, site: str, doing: str, why: str) -> None:
        advice = "; make room there, or set another work directory" if _is_full(why) else ""
        super().__init__(site, f"{doing} failed: {why}{advice}")
        self.is_full = _is_full(why)


class TooMuchOutput(TransportError):
    """A command wrote more than anybody wants to hold in memory."""


def _is_full(why: str) -> bool:
    return any(words in why for words in ("No space left", "Disk quota exceeded", "File too large"))
