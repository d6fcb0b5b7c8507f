"""What the test bed needs of the machine that it runs on."""

from __future__ import annotations

from functools import cache

from wan import programs

NEEDED = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "modulecmd": "environment-modules",
}


@cache
def why_not() -> str | None:
    """Why it cannot stand here, and what to do about it; None if it can."""
    missing = sorted({package for command, package in NEEDED.items() if programs.found(command) is None})
    if missing:
        return f"the test bed needs: apt-get install {' '.join(missing)}"
    return programs.why_not()
