"""Copying files to another site: xmml cp, the staging of a run, scp and rsync."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ends import lateness_us
from harness import places, staged_file
from harness.processes import RunFailed
from sample import Sample
from wan import Wan
from wan.ssh import sshd_on

MIB = 1 << 20
LIMIT_S = 300.0
#: Small copies, by the number of files: the size of each.
SMALL_B = {1: (1 << 10, 20_000_000), 1000: (1 << 10,)}


def copies(round: int, wan: Wan, rtt_ms: float, size_b: int) -> Iterator[Sample | str]:
    """Copies a file from b to a in turn with everybody; a text tells of a failure."""
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        (folder / "file").write_bytes(os.urandom(size_b))
        with sshd_on(wan["a"].login, wan["a"].address, folder) as config:
            ssh = f"ssh -F {config}"
            xmml = str(places.tool("xmml") or "xmml")
            target, work = folder / "copy", folder / "work"
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
                commands[f"staging over {kind}"] = [*words, f"{folder}/file", str(work)]
            _seconds(wan, commands[f"staging over {kind}"])  # it brings the program there
            order = list(commands)
            for peer in order[round % len(order) :] + order[: round % len(order)]:
                target.unlink(missing_ok=True)
                staged_file.forget(work, size_b)
                try:
                    seconds = _seconds(wan, commands[peer])
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    yield f"{peer}: {error}"
                    continue
                copy = staged_file.arrived(work, "file") if peer.startswith("staging") else target
                if copy.stat().st_size != size_b:
                    raise RunFailed(f"{peer} has not copied everything")
                yield Sample(round, "files", peer, "", rtt_ms, 0.0, size_b, 0, seconds, lateness_us(wan))


def small_copies(round: int, wan: Wan, experiment: str, rtt_ms: float) -> Iterator[Sample | str]:
    """Copies little from b to a in turn with everybody; the sample of a login has the size 0."""
    with tempfile.TemporaryDirectory(prefix="xmml-bench-") as name:
        folder = Path(name)
        with sshd_on(wan["a"].login, wan["a"].address, folder) as config:
            ssh = f"ssh -F {config}"
            xmml = str(places.tool("xmml") or "xmml")
            commands = {
                "scp": ["scp", "-F", str(config), "-q", "-r"],
                "rsync": ["rsync", "-r", "-e", ssh],
                "xmml cp": [xmml, "cp", "-q", "--ssh", ssh, "--remote", xmml],
            }
            seconds = _seconds(wan, [*ssh.split(), "there", "true"])
            yield Sample(round, experiment, "ssh", "", rtt_ms, 0.0, 0, 0, seconds, lateness_us(wan))
            for count, sizes in SMALL_B.items():
                for size_b in sizes:
                    source, target = folder / f"{count}x{size_b}", folder / "copy"
                    source.mkdir()
                    for number in range(count):
                        (source / str(number)).write_bytes(os.urandom(size_b))
                    order = list(commands)
                    for peer in order[round % len(order) :] + order[: round % len(order)]:
                        words = [*commands[peer], str(source if count > 1 else source / "0"), f"there:{target}"]
                        try:
                            seconds = _seconds(wan, words)
                        except (AssertionError, subprocess.TimeoutExpired) as error:
                            yield f"{peer}: {error}"
                            continue
                        copied = sum(path.stat().st_size for path in [target, *target.rglob("*")] if path.is_file())
                        if copied != count * size_b:
                            raise RunFailed(f"{peer} has not copied everything")
                        subprocess.run(["rm", "-r", target], check=True)
                        late_us = lateness_us(wan)
                        yield Sample(round, experiment, peer, "", rtt_ms, 0.0, count * size_b, 0, seconds, late_us)


def _seconds(wan: Wan, words: list[str]) -> float:
    begin = time.monotonic()
    wan["b"].login.run(words, timeout_s=LIMIT_S, env=places.environment())
    return time.monotonic() - begin
