"""Files to a site, where somebody else writes them too."""

import asyncio
import subprocess

from xmml_sites.ssh import bulk_transfer


def test_a_file_gets_there_whole_though_a_command_of_a_killed_launcher_still_writes_it(tmp_path, monkeypatch):
    local, there = tmp_path / "here", tmp_path / "there"
    text = bytes(range(256)) * 2**13
    local.write_bytes(text)
    commands = []

    async def keep(_transport, command, _remote, _part):
        commands.append(command)

    monkeypatch.setattr(bulk_transfer, "_put_part", keep)
    asyncio.run(bulk_transfer._put_whole(None, local, str(there / "file"), len(text)))
    killed, ours = (
        subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        for command in commands * 2
    )
    for process in (killed, ours):
        process.stdin.write(text[: len(text) // 2])
    killed.stdin.close()
    assert killed.wait(60) != 0
    ours.stdin.write(text[len(text) // 2 :])
    ours.stdin.close()
    assert ours.wait(60) == 0
    assert [path.name for path in there.iterdir()] == ["file"]
    assert (there / "file").read_bytes() == text
