"""The relay key of a run: the program, the launcher and docs/protocol.md make the same one from a secret."""

from __future__ import annotations

import subprocess
from pathlib import Path

import printed
from commands import MTO
from waiting import LIMIT_S
from xmml_native.mto import relay_key

#: The secret of the golden vectors.
SECRET = b"\x5e" * 32


def test_the_launcher_makes_the_relay_key_of_the_page() -> None:
    assert f"`{relay_key(SECRET)}`" in (printed.DOCS / "protocol.md").read_text(encoding="utf-8")


def test_the_program_makes_the_same_relay_key_as_the_launcher(tmp_path: Path) -> None:
    file = tmp_path / "run.secret"
    file.touch(mode=0o600)
    file.write_text(SECRET.hex())
    done = subprocess.run([MTO, "relay-key", file], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout == f"{relay_key(SECRET)}\n"
