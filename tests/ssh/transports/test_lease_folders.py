"""The folder of the leases at a site: the first command makes it, and whoever ends a command may come before that."""

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
    return leased(command, folder=str(folder), number=1, lease_s=30, ends_connection=False)


def test_the_first_command_makes_the_folder_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    done = sh(lease(folder, f"stat -c %a '{folder}'"))
    assert (done.returncode, done.stdout.split()[-1]) == (0, "700")


def test_a_command_that_is_ended_before_the_folder_is_there_does_not_begin(tmp_path: Path) -> None:
    folder, began = tmp_path / "leases", tmp_path / "began"
    assert sh(kill_group(str(folder), 1)).returncode == 0
    sh(lease(folder, f"touch '{began}'"))
    assert not began.exists()


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "started"])
def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path, ends: bool) -> None:
    elsewhere, began = tmp_path / "elsewhere", tmp_path / "began"
    elsewhere.mkdir()
    (tmp_path / "leases").symlink_to(elsewhere)
    command = kill_group(str(tmp_path / "leases"), 1) if ends else lease(tmp_path / "leases", f"touch '{began}'")
    assert sh(command).returncode == (0 if ends else FOREIGN_STATUS)
    assert list(elsewhere.iterdir()) == []
    assert not began.exists()


def test_no_group_is_ended_that_a_link_in_the_place_of_the_folder_names(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/1.pid").write_text(f"{other.pid}\n")
        (tmp_path / "leases").symlink_to(tmp_path / "elsewhere")
        try:
            assert sh(kill_group(str(tmp_path / "leases"), 1)).returncode == 0
            assert other.poll() is None
        finally:
            other.kill()
