"""Files that come to a site whole or not at all."""

import subprocess

import pytest
from xmml_sites.ssh.remote_shell import written_whole

TEXT = bytes(range(256)) * 2**13


@pytest.fixture
def begin():
    """Begins to write a file; who is cut off ends before all of it has come."""
    begun = []

    def begin(path):
        command = written_whole(str(path), len(TEXT), 0o640)
        process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, bufsize=0)
        begun.append(process)
        process.stdin.write(TEXT[: len(TEXT) // 2])
        return process

    yield begin
    for process in begun:
        process.stdin.close()
        process.wait()


def test_a_file_that_is_cut_off_leaves_nothing(begin, tmp_path):
    killed = begin(tmp_path / "there/file")
    killed.stdin.close()
    assert killed.wait(60) != 0
    assert list((tmp_path / "there").iterdir()) == []


def test_a_file_gets_there_whole_though_a_command_of_a_killed_launcher_still_writes_it(begin, tmp_path):
    killed, ours = begin(tmp_path / "there/file"), begin(tmp_path / "there/file")
    killed.stdin.close()
    assert killed.wait(60) != 0
    ours.stdin.write(TEXT[len(TEXT) // 2 :])
    ours.stdin.close()
    assert ours.wait(60) == 0
    (file,) = (tmp_path / "there").iterdir()
    assert file.read_bytes() == TEXT
    assert file.stat().st_mode & 0o777 == 0o640
