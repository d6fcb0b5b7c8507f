"""An ssh server on a machine of the network, and the way to it for programs on other machines."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from wan.machine import Machine
from wan.programs import tool


@contextlib.contextmanager
def sshd_on(machine: Machine, address: str, folder: Path) -> Iterator[Path]:
    """An sshd with keys of its own at port 22 of a machine, while the block lasts.

    Returns the configuration of a client that gets there under the name `there`; all files are in `folder`.
    """
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized_keys").write_text((folder / "user_key.pub").read_text())
    key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"{address} {key}\n")
    (folder / "sshd_config").write_text(
        f"Port 22\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nPidFile none\nPrintMotd no\n"
        "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
    )
    config = folder / "ssh_config"
    config.write_text(
        f"Host there\n  HostName {address}\n  User root\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
    )
    machine.run(["mkdir", "-p", "/run/sshd"])
    server = machine.start([tool("sshd"), "-D", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(machine, 22)
        yield config
    finally:
        server.kill()
        server.wait()


def wait_for_port(machine: Machine, port: int, limit_s: float = 60, count: int = 1) -> None:
    """Waits until something listens at a TCP port of a machine, or at so many in a row from this one on.

    Raises:
        TimeoutError: nothing does within the limit.
    """
    listening = 'ss -Hltn "sport >= :$1 and sport < :$(($1 + $2))" | grep -c .'
    script = f'until [ "$({listening})" -ge "$2" ]; do sleep 0.02; done'
    try:
        machine.run(["bash", "-c", script, "bash", str(port), str(count)], timeout_s=limit_s)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"nothing listens at port {port} of {machine.name}") from error
