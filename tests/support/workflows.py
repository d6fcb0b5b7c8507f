"""A workflow in a folder, carried out by a real Snakemake with our executor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from commands import SNAKEMAKE
from waiting import RUN_LIMIT_S


class Workflow:
    """A folder with a Snakefile.

    Attributes:
        options: of every call of Snakemake.
        env: added to its environment.
        umask: that Snakemake has; -1: the one of the tests.
    """

    umask = -1

    def __init__(self, folder: Path, snakefile: str, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.folder, self.options, self.env = folder, options, dict(env or {})
        (folder / "Snakefile").write_text(snakefile)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Snakemake in a session of its own; both of its outputs come together."""
        return subprocess.Popen(
            [*SNAKEMAKE, "--jobs", "4", *self.options, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            umask=self.umask,
        )

    @contextmanager
    def going(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Snakemake that goes on; afterwards it is gone in any case."""
        with self.start(*arguments) as running:
            try:
                yield running
            finally:
                running.kill()

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run Snakemake to its end; return exit status and output."""
        with self.going(*arguments) as running:
            return ended(running)


def ended(running: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end; return exit status and what of the output nobody has read."""
    output, _ = running.communicate(timeout=RUN_LIMIT_S)
    return running.returncode, output
