"""What only the transport over OpenSSH has to see to."""

import asyncio

import pytest

from .conftest import make

#: Stands in for an older `ssh`, as far as it is asked which ciphers it would take.
OLDER = """#!/bin/sh
case "$*" in
*"-F none"*) echo ciphers USUAL;;
*) echo ciphers CONFIGURED;;
esac
"""


@pytest.mark.parametrize(
    ("usual", "configured", "chosen"),
    [
        ("chacha20,aes128-ctr,aes256-gcm@openssh.com,aes128-gcm@openssh.com", "", "{0[3]},{0[2]},{0[0]},{0[1]}"),
        ("chacha20,aes256-gcm@openssh.com,aes128-ctr", "", "{0[1]},{0[0]},{0[2]}"),
        ("chacha20,aes256-gcm@openssh.com", "aes256-ctr", None),
        ("", "", None),
    ],
)
def test_the_fastest_ciphers_that_ssh_knows_come_first(server, tmp_path, monkeypatch, usual, configured, chosen):
    ssh = tmp_path / "ssh"
    ssh.write_text(OLDER.replace("CONFIGURED", configured or usual).replace("USUAL", usual) if usual else "#!/bin/sh\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    expected = ["-o", f"Ciphers={chosen.format(usual.split(','))}"] if chosen else []
    assert asyncio.run(make("openssh", server)._fastest_ciphers()) == expected
