"""The inside of a job that runs already, as a batch system: what is submitted begins at once, on the nodes of that job.

A job is a process group here, as at a site without a batch system. Its steps are started as those of a submitted job.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from xmml_sites.batch.fork import START_OF, Fork
from xmml_sites.batch.scheduler import JobScript, Scheduler

#: A launcher that is a step of srun itself (`srun --pty bash`) holds the cores of its nodes, so our steps would wait
#: for its end unless they may overlap with it. Slurm's own steps, such as a batch script, have numbers from this on.
SHARE_CORES_OF_OUR_STEP = '[ "${SLURM_STEP_ID:-4294967280}" -ge 4294967280 ] || export SLURM_OVERLAP=1'


class WithinJob(Fork):
    """Processes on the nodes of a job of a batch system."""

    def __init__(self, outer: Scheduler) -> None:
        """
        Args:
            outer: the batch system that has started the job.
        """
        self._outer = outer
        self.name = outer.name

    def asking_for(self, job: JobScript) -> list[str]:
        """As the batch system has it."""
        return self._outer.asking_for(job)

    def with_steps_started(self, job: JobScript) -> JobScript:
        """Steps of the batch system."""
        started = self._outer.with_steps_started(job)
        return replace(started, command=f"{SHARE_CORES_OF_OUR_STEP}\n{started.command}")

    def submit_command(self, path: str) -> str:
        """Start the script in a session of its own; print its id.

        It has the environment of the job, which a login shell would change.
        """
        return (
            f"{START_OF}setsid /bin/bash {shlex.quote(path)} </dev/null >/dev/null 2>&1 & "
            'echo "$(hostname):$!:$(xmml_start $!)"'
        )
