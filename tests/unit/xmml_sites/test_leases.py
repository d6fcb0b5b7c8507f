"""The folders of leases, which lie where others may put something, too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from xmml_sites.ssh.remote_shell import renewal


def renew(folder: Path) -> None:
    subprocess.run(["/bin/sh", "-c", renewal([str(folder)], 17)], check=True)


def test_a_lease_is_renewed_as_long_as_there_is_one(tmp_path: Path) -> None:
    renew(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "lease").write_text("0")
    renew(tmp_path)
    assert (tmp_path / "lease").read_text() == "17\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who can give a folder away: sudo make test")
def test_a_folder_that_somebody_else_has_made_in_its_place_is_not_written_in(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "lease-of-another"
    precious.write_text("kept")
    folder.mkdir()
    (folder / "lease").symlink_to(precious)
    os.chown(folder, 54321, -1)
    renew(folder)
    assert precious.read_text() == "kept"


def test_a_link_that_somebody_else_has_put_in_its_place_is_not_followed(tmp_path: Path) -> None:
    own, link = tmp_path / "own", tmp_path / "link"
    own.mkdir()
    (own / "lease").write_text("kept")
    link.symlink_to(own)
    renew(link)
    assert (own / "lease").read_text() == "kept"
