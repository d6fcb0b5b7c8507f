"""The start of a relay that stays, where there is no systemd: the command that docs/relay.md prints."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from pathlib import Path

from commands import SEARCH_PATH
from waiting import LIMIT_S, wait_until

PAGE = Path(__file__).resolve().parents[3] / "docs" / "relay.md"


def test_a_relay_outlives_the_shell_that_started_it(tmp_path: Path) -> None:
    (command,) = (line for line in PAGE.read_text().splitlines() if line.startswith("setsid -f mto"))
    site = f"test-{secrets.token_hex(4)}"
    (tmp_path / "alpha.toml").write_text(f'site = "{site}"\nlisten = ["127.0.0.1:0"]\n')
    environment = {**os.environ, "PATH": SEARCH_PATH}

    def mto(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["mto", *words, "--site", site], env=environment, capture_output=True, text=True, timeout=LIMIT_S
        )

    shell = subprocess.Popen(
        ["sh", "-c", f"{command}; read forever"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(lambda: mto("status").returncode == 0, (tmp_path / "alpha.log").read_text)
        os.killpg(shell.pid, signal.SIGKILL)  # everything that still belongs to it
        shell.wait(LIMIT_S)
        assert site in mto("status").stdout
    finally:
        shell.kill()
        shell.communicate()
        stopped = mto("stop")
    assert stopped.returncode == 0, stopped.stderr
