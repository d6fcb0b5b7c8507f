"""The unit for systemd, made as its first lines say."""

from __future__ import annotations

import subprocess
from pathlib import Path

from commands import BIN
from needs import needs
from waiting import LIMIT_S

UNIT = Path(__file__).resolve().parents[3] / "mto" / "systemd" / "mto@.service"


@needs("systemd-analyze")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    command = next(line for line in UNIT.read_text().splitlines() if line.startswith("#   sed"))
    made = tmp_path / "mto@alpha.service"
    script = command.removeprefix("#   ").replace("~/.config/systemd/user/mto@.service", str(made))
    tools = f"{BIN}:/usr/bin:/bin"
    subprocess.run(["sh", "-ec", script], cwd=UNIT.parent, env={"PATH": tools}, check=True, timeout=LIMIT_S)
    (tmp_path / "home").mkdir()
    environment = {"PATH": tools, "HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path)}

    def said_of(unit: Path) -> str:
        words = ["systemd-analyze", "--user", "--man=no", "verify", str(unit)]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        return "\n".join(line for line in (done.stdout + done.stderr).splitlines() if "mto" in line)

    assert said_of(made) == ""
    without = tmp_path / "mto@beta.service"
    without.write_text(UNIT.read_text())
    assert "mto is not executable" in said_of(without), "there is none where the unit looks for it"
