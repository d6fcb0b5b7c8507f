"""The first login to a machine, with a person at the terminal: the host key is shown and confirmed, questions are
answered.

Runs only when somebody can be asked. Nothing but the host key is kept; no password ever is.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import hashlib
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import paramiko
from paramiko.transport import ServiceRequestingTransport

from xmml.late_dataclass import dataclass
from xmml_sites.ssh.destination import Destination, configuration_files, read_jumps
from xmml_sites.ssh.failure import AuthenticationFailed, HostKeyChanged, HostKeyUnknown, SiteUnreachable
from xmml_sites.ssh.host_keys import GLOBAL_FILES, USER_FILES

CONNECT_S = 20.0

#: Shows a text and returns whether the person agrees.
Confirm = Callable[[str], bool]
#: Shows a question and returns the answer; the flag says whether what is typed may be seen.
Answer = Callable[[str, bool], str]


@dataclass(frozen=True)
class FirstLogin:
    """How the first login went.

    Attributes:
        fingerprint: of the host key.
        is_new: the key was confirmed just now and written to `known_hosts`.
        asked: the site wanted more than a key: without a person nobody can log in.
    """

    fingerprint: str
    is_new: bool
    asked: bool


def first_contact(
    site: str,
    destination: Destination,
    confirm: Confirm,
    answer: Answer,
    configuration: Sequence[Path] | None = None,
) -> FirstLogin:
    """Log in once.

    Raises:
        SiteUnreachable, HostKeyChanged, AuthenticationFailed: as their names say.
        HostKeyUnknown: the person did not confirm the key.
    """
    facts = _Facts(destination, list(configuration or configuration_files()))
    with _connection(site, destination, facts) as transport:
        key = transport.get_remote_server_key()
        fingerprint = _fingerprint(key)
        known = _known(facts, key)
        if known is False:
            raise HostKeyChanged(site, destination, fingerprint)
        if known is None:
            question = (
                f"The host key of {destination} ({facts.host}, port {facts.port}) is not known.\n  {fingerprint}\n"
                "Is it the one that the site publishes?"
            )
            if not confirm(question):
                raise HostKeyUnknown(site, destination, fingerprint)
            _learn(facts, key)
        asked = _log_in(site, destination, facts, transport, answer)
        return FirstLogin(fingerprint, known is None, asked)


class _Facts:
    """What the OpenSSH configuration says of a destination."""

    def __init__(self, destination: Destination, files: list[Path]) -> None:
        config = paramiko.SSHConfig()
        for file in files:
            with contextlib.suppress(OSError), file.open() as text:
                config.parse(text)
        found = config.lookup(destination.host)
        self.host = found.get("hostname", destination.host)
        self.port = destination.port or int(found.get("port", 22))
        self.user = destination.user or found.get("user") or getpass.getuser()
        self.keys = [Path(name).expanduser() for name in found.get("identityfile", [])] or [
            Path.home() / ".ssh" / f"id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")
        ]
        self.uses_agent = str(found.get("identitiesonly", "no")).lower() != "yes"
        self.jump = found.get("proxyjump", "none")
        self.command = found.get("proxycommand", "none")
        self.configuration = files
        name = found.get("hostkeyalias", self.host)
        self.name = name if self.port == 22 or "hostkeyalias" in found else f"[{name}]:{self.port}"
        self.known_hosts = _files(found.get("userknownhostsfile"), USER_FILES)
        self.known_to_all = _files(found.get("globalknownhostsfile"), GLOBAL_FILES)


def _files(named: object, default: Sequence[str]) -> list[Path]:
    names = default if named is None else str(named).split()
    return [Path(name).expanduser() for name in names if name != "none"]


@contextlib.contextmanager
def _connection(site: str, destination: Destination, facts: _Facts) -> Iterator[paramiko.Transport]:
    way: socket.socket | paramiko.ProxyCommand
    try:
        if facts.jump != "none":
            way = paramiko.ProxyCommand(shlex.join(_through(facts)))
        elif facts.command != "none":
            way = paramiko.ProxyCommand(facts.command)
        else:
            way = socket.create_connection((facts.host, facts.port), CONNECT_S)
        transport = ServiceRequestingTransport(way)
    except OSError as error:
        raise SiteUnreachable(site, destination, error.strerror or str(error)) from None
    except ValueError as error:
        raise SiteUnreachable(site, destination, f"ProxyJump in the configuration of ssh: {error}") from None
    try:
        try:
            transport.start_client(timeout=CONNECT_S)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise SiteUnreachable(site, destination, str(error) or "it hung up") from None
        yield transport
    finally:
        transport.close()


def _through(facts: _Facts) -> list[str]:
    """The command that goes through the machines on the way: ssh itself, which checks their keys.

    Raises:
        ValueError: `ProxyJump` names none.
    """
    *before, gate = read_jumps(facts.jump)
    words = ["ssh", *(["-F", str(facts.configuration[0])] if facts.configuration else [])]
    words += ["-o", "StrictHostKeyChecking=yes", *(["-J", ",".join(map(str, before))] if before else [])]
    words += ["-p", str(gate.port)] if gate.port else []
    words += ["-l", gate.user] if gate.user else []
    to = f"[{facts.host}]" if ":" in facts.host else facts.host
    return [*words, "-W", f"{to}:{facts.port}", "--", gate.host]


def _known(facts: _Facts, key: paramiko.PKey) -> bool | None:
    """Whether the key is the machine's; `None` if nothing is known of it."""
    found = False
    for file in (*facts.known_hosts, *facts.known_to_all):
        if file.is_file():
            entries = paramiko.HostKeys(str(file)).lookup(facts.name)
            if entries is not None:
                found = True
                if key in entries.values():
                    return True
    return False if found else None


def _learn(facts: _Facts, key: paramiko.PKey) -> None:
    file = facts.known_hosts[0] if facts.known_hosts else Path.home() / ".ssh" / "known_hosts"
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = file.read_text() if file.exists() else ""
    with file.open("a") as opened:
        opened.write(
            ("\n" if text and not text.endswith("\n") else "") + f"{facts.name} {key.get_name()} {key.get_base64()}\n"
        )


def _log_in(site: str, destination: Destination, facts: _Facts, transport: paramiko.Transport, answer: Answer) -> bool:
    """Try keys without asking, then whatever the server wants to know; return whether it asked."""
    for key in _keys(facts):
        with contextlib.suppress(paramiko.SSHException):
            transport.auth_publickey(facts.user, key)
            if transport.is_authenticated():
                return False

    def questions(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        head = "\n".join(line for line in (title, instructions) if line)
        return [answer(f"{head}\n{text}" if head else text, is_shown) for text, is_shown in prompts]

    try:
        transport.auth_interactive(facts.user, questions)
    except paramiko.SSHException as error:
        raise AuthenticationFailed(site, destination, str(error) or "no key fits") from None
    if not transport.is_authenticated():
        raise AuthenticationFailed(site, destination, "it wants more than keys and answers")
    return True


def _keys(facts: _Facts) -> Iterator[paramiko.PKey]:
    if facts.uses_agent:
        yield from paramiko.Agent().get_keys()
    for path in facts.keys:
        with contextlib.suppress(OSError, paramiko.SSHException, ValueError):
            yield paramiko.PKey.from_path(path)


def _fingerprint(key: paramiko.PKey) -> str:
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"
