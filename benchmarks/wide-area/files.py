"""Copying a large file to another site: xmml cp, the staging of a run, scp and rsync."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ends import lateness_us
from harness import places
from harness.processes import RunFailed
from sample import Sample
from wan import Wan
from wan.ssh import sshd_on

MIB = 1 << 20
LIMIT_S = 300.0


def copies(round: int, wan: Wan, rtt_ms: float, size_b: int) -> Iterator[Sample | str]:
    """Copies a file from b to a in turn with everybody; a text tells of a failure."""
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        (folder / "file").write_bytes(os.urandom(size_b))
        with sshd_on(wan["a"].login, wan["a"].address, folder) as config:
            ssh = f"ssh -F {config}"
            xmml = str(places.tool("xmml") or "xmml")
            target = folder / "copy"
            commands = {
                "scp": ["scp", "-F", str(config), "-q", f"{folder}/file", f"there:{target}"],
                "rsync": ["rsync", "-e", ssh, f"{folder}/file", f"there:{target}"],
            }
            for count in ("1", "8", "auto"):
                words = [xmml, "cp", "-q", "--ssh", ssh, "--remote", xmml, "--streams", count]
                commands[f"xmml cp, {count} streams"] = [*words, f"{folder}/file", f"there:{target}"]
            ssh_only = [xmml, "cp", "-q", "--ssh", ssh, "--remote", xmml, "--way", "ssh"]
            commands["xmml cp through ssh"] = [*ssh_only, f"{folder}/file", f"there:{target}"]
            for kind in ("asyncssh", "openssh"):
                words = [sys.executable, str(Path(__file__).with_name("stage.py")), kind, str(config), "there"]
                commands[f"staging over {kind}"] = [*words, f"{folder}/file", str(target)]
            order = list(commands)
            for peer in order[round % len(order) :] + order[: round % len(order)]:
                target.unlink(missing_ok=True)
                begin = time.monotonic()
                try:
                    wan["b"].login.run(commands[peer], timeout_s=LIMIT_S, env=places.environment())
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    yield f"{peer}: {error}"
                    continue
                seconds = time.monotonic() - begin
                if target.stat().st_size != size_b:
                    raise RunFailed(f"{peer} has not copied everything")
                yield Sample(round, "files", peer, "", rtt_ms, 0.0, size_b, 0, seconds, lateness_us(wan))
