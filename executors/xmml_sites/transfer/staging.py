"""Bringing files to a site, for a run or for a job of a workflow.

At the site, below the work directory, `staged/` keeps every staged file under its hash, so that the next run or job
finds it. Each of them gets copies, because programs may write into the folder in which they lie. Of a file of which the
site has an earlier version, only the ranges travel that have changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xmml.files import open_file
from xmml.late_dataclass import dataclass
from xmml_sites.ssh import RemoteFileError, Transport, TransportError
from xmml_sites.transfer.messages import Malformed
from xmml_sites.transfer.progress import Report
from xmml_sites.transfer.site_files import FileCommand, site_files

#: The folder of staged files, in the work directory of a site.
STORE = "staged"
#: The slowest rate at which files are waited for [bytes/s], and the time that they may take in any case [s].
SLOWEST = 20_000
LEAST_TIME_S = 600.0
#: What a file may take besides, for some twenty operations of a file system that may be slow [s].
TIME_PER_FILE_S = 0.2


@dataclass(frozen=True)
class FileToStage:
    """A file to be at a site.

    Attributes:
        path: relative to the folder into which files are laid out.
        mode: the permission bits of the copy.
        written: when it was last written [ns since 1970]; the copy gets the same time, which `make` compares.
    """

    local: Path
    path: str
    sha256: str
    mode: int
    size: int
    written: int


def file_to_stage(local: Path, path: str) -> FileToStage:
    """Return a file with its hash and its permissions.

    Args:
        path: relative to the folder into which files are laid out.

    Raises:
        FileUnreadable, OSError: it cannot be read.
    """
    with open_file(local) as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        status = os.fstat(opened.fileno())
    return FileToStage(local, path, digest, status.st_mode & 0o777, status.st_size, status.st_mtime_ns)


async def stage(
    transport: Transport,
    work: str,
    command: str,
    folder: str,
    files: Iterable[FileToStage],
    images: Collection[str] = (),
    *,
    lease_s: float,
) -> Mapping[str, Any]:
    """Bring files to a site and lay them out in a folder.

    Args:
        work: the work directory there, absolute.
        command: that serves the run or the job there (`mto site`).
        folder: into which they are laid out, relative to that of the run or the job.
        images: paths of files that no program writes to: they are not copied from the store.
        lease_s: the command there ends when it has not heard of us for so long.

    Returns:
        How many files and bytes there are, how many of them had to be sent, and the hash of each file, by its path.

    Raises:
        TransportError: the site cannot be reached or written, or something came out wrong; or a file cannot be read.
    """
    wanted = list(files)
    order = {"store": f"{work}/{STORE}", "folder": folder, "images": list(images)}
    size = sum(each.size for each in wanted)
    sent_files = sent_bytes = 0
    limit_s = LEAST_TIME_S + TIME_PER_FILE_S * len(wanted) + 2 * size / SLOWEST
    async with site_files(transport, command, "stage", "staging", timeout_s=limit_s, lease_s=lease_s) as there:
        missing = await _lay_out(there, order, wanted)
        if missing:
            sent_files, sent_bytes = len(missing), (await _send(there, missing)).sent_b
            changed = {each.sha256 for each in await _lay_out(there, order, wanted)}
            with tempfile.TemporaryDirectory(prefix="xmml-stage-") as copies:
                fixed = {
                    each.path: _fixed(each, Path(copies, str(number)), transport.site)
                    for number, each in enumerate(wanted)
                    if each.sha256 in changed
                }
                wanted = [fixed.get(each.path, each) for each in wanted]
                if fixed:
                    sent = await _send(there, list(fixed.values()))
                    sent_bytes += sent.sent_b
                    if lost := await _lay_out(there, order, wanted):
                        why = "".join(f" ({why})" for _, why in sent.failed[:1])
                        text = f"{lost[0].path} did not arrive whole{why}"
                        raise RemoteFileError(transport.site, "staging", text)
    hashes = {each.path: each.sha256 for each in wanted}
    return {
        "files": len(wanted),
        "bytes": size,
        "sent_files": sent_files,
        "sent_bytes": sent_bytes,
        "sha256": hashes,
    }


async def _lay_out(there: FileCommand, order: Mapping[str, Any], files: Sequence[FileToStage]) -> list[FileToStage]:
    """Have files laid out; return those, each content once, that the site has not got, and now waits for."""
    rows = [[each.path, each.sha256, each.mode, each.written] for each in files]
    answer = await there.order({**order, "files": rows})
    missing = answer.get("missing")
    if not isinstance(missing, list):
        raise Malformed("the answer to an order has no list of missing files")
    hashes = {each for each in missing if isinstance(each, str)}
    return list({each.sha256: each for each in files if each.sha256 in hashes}.values())


async def _send(there: FileCommand, files: Sequence[FileToStage]) -> Report:
    """Send files under their hashes; return what came of it. Of one of which the site has an earlier version, what has
    changed is sent. One that changes meanwhile is found to be missing later."""
    size = sum(each.size for each in files)
    return await there.give([each.local for each in files], [each.sha256 for each in files], size)


def _fixed(file: FileToStage, copy: Path, site: str) -> FileToStage:
    """Return a file as it is now, copied so that it stays so: the log of a run in the folder of its model grows while
    it is sent.

    Raises:
        TransportError: it cannot be read.
    """
    try:
        shutil.copyfile(file.local, copy)
        with open(copy, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise TransportError(site, f"staging failed here: {file.local} cannot be read: {error.strerror}") from None
    return replace(file, local=copy, sha256=digest, size=copy.stat().st_size)
