"""The folder of a lease at a site: its command makes and removes it, and who ends the command may come before that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from waiting import LIMIT_S
from xmml_sites.ssh.remote_shell import kill_group, leased

FOREIGN_STATUS = 73


def sh(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def lease(folder: Path, command: str) -> str:
    return leased(command, folder=str(folder), lease_s=30, ends_connection=False)


def test_a_command_makes_the_folder_for_its_owner_alone_and_removes_it(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    done = sh(lease(folder, f"stat -c %a '{folder}'; exit 3"))
    assert (done.returncode, done.stdout.split()[-1]) == (3, "700")
    assert not folder.exists()


def test_a_command_that_is_ended_before_the_folder_is_there_does_not_begin(tmp_path: Path) -> None:
    folder, began = tmp_path / "leases", tmp_path / "began"
    assert sh(kill_group(str(folder))).returncode == 0
    assert sh(lease(folder, f"touch '{began}'")).returncode != 0
    assert not began.exists()
    assert not folder.exists()


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "started"])
def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path, ends: bool) -> None:
    elsewhere, began = tmp_path / "elsewhere", tmp_path / "began"
    elsewhere.mkdir()
    (tmp_path / "leases").symlink_to(elsewhere)
    command = kill_group(str(tmp_path / "leases")) if ends else lease(tmp_path / "leases", f"touch '{began}'")
    assert sh(command).returncode == (0 if ends else FOREIGN_STATUS)
    assert list(elsewhere.iterdir()) == []
    assert not began.exists()


def test_no_group_is_ended_that_a_link_in_the_place_of_the_folder_names(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/pid").write_text(f"{other.pid}\n")
        (tmp_path / "leases").symlink_to(tmp_path / "elsewhere")
        try:
            assert sh(kill_group(str(tmp_path / "leases"))).returncode == 0
            assert other.poll() is None
        finally:
            other.kill()
