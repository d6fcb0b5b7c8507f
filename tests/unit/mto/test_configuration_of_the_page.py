"""The configuration that docs/relay.md prints, and the unit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import printed
from commands import MTO
from waiting import LIMIT_S

UNIT = printed.DOCS.parent / "mto" / "systemd" / "mto@.service"


def mto(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MTO, *words], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S)


def test_the_configuration_is_right_when_its_files_are_there(tmp_path: Path) -> None:
    (text,) = printed.blocks("relay.md", "toml")
    beta = mto(tmp_path, "certificate", "beta.pem").stdout.strip()
    (tmp_path / "alpha.toml").write_text(text.replace("3f0a...", beta))
    check = ("--check", "--config", "alpha.toml")
    assert "canal.relay-key: No such file" in mto(tmp_path, *check).stderr
    (tmp_path / "canal.secret").touch(mode=0o600)
    (tmp_path / "canal.secret").write_text("5a" * 32)
    (tmp_path / "canal.relay-key").touch(mode=0o600)
    (tmp_path / "canal.relay-key").write_text(mto(tmp_path, "relay-key", "canal.secret").stdout)
    assert "alpha.pem: No such file" in mto(tmp_path, *check).stderr
    assert mto(tmp_path, "certificate", "alpha.pem").returncode == 0
    right = mto(tmp_path, *check)
    assert (right.returncode, right.stderr) == (0, "")
    (tmp_path / "canal.relay-key").chmod(0o640)
    assert "canal.relay-key" in mto(tmp_path, *check).stderr


def test_the_unit_is_the_one_that_the_page_links_to() -> None:
    (text,) = printed.blocks("relay.md", "ini")
    kept = UNIT.read_text(encoding="utf-8")
    assert text == "".join(line for line in kept.splitlines(keepends=True) if not line.startswith("#"))
