"""A file that is staged for a run that does not take place."""

from __future__ import annotations

import shutil
from pathlib import Path

from xmml_executors.launch.site.staging import MODEL, Wanted, hash_files_in_thread
from xmml_sites.lease import LEASE_S
from xmml_sites.program import command_at, install_program
from xmml_sites.ssh import Transport
from xmml_sites.transfer.staging import STORE, stage

_RUN = "runs/benchmark"


async def stage_file(transport: Transport, work: str, file: Path) -> None:
    """Bring a file to a site as a launcher does.

    Args:
        work: the work directory there, absolute.
    """
    run = f"{work}/{_RUN}"
    await transport.mkdir(run)
    await install_program(transport, run, f"{work}/{STORE}", "python3")
    files = await hash_files_in_thread(file.parent, [Wanted(file.name)])
    await stage(transport, work, command_at(run), MODEL, files, lease_s=LEASE_S)


def arrived(work: Path, name: str) -> Path:
    """Return where a file of this name is then."""
    return work / _RUN / MODEL / name


def forget(work: Path, size_b: int) -> None:
    """Remove files of this size that were staged, and that they were; xMML's program stays."""
    for folder in (_RUN, f"{STORE}/versions"):
        shutil.rmtree(work / folder, ignore_errors=True)
    for kept in (work / STORE).glob("*"):
        if kept.stat().st_size == size_b:
            kept.unlink()
