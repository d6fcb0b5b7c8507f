"""The journal of a run: what is about to be done at a site, written before it is done.

An interrupted launcher can be resumed or cancelled from it: whatever stands in it may exist at a site, and nothing else
can. Each line is one JSON object with the time and what is done, and is on the disk before `write` returns. A line
without its end was being written when the launcher was killed: what it speaks of was not begun, so nobody reads it, and
the next launcher writes in its place.

Whoever changes something at the sites, to go on with a run or to clean up after it, has the journal open for writing,
and nobody else can meanwhile, except on a file system without locks: there nothing keeps two processes apart.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from xmml_native.machine import start_of

from xmml.late_dataclass import dataclass
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError

#: The file, in the folder of the run.
JOURNAL = "journal.jsonl"


class JournalLocked(SiteError):
    """Another process carries out the run, or cleans up after it."""


class Journal:
    """The journal of a run, open for writing, for one process at a time.

    Attributes:
        past: what it told when it was opened.
    """

    def __init__(self, folder: OpenFolder) -> None:
        """Open it, behind its last whole line if there is one.

        Raises:
            JournalLocked: somebody else has it open.
            SiteError: it cannot be written, or is none.
        """
        self.path = folder.path / JOURNAL
        try:
            self._descriptor = folder.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self.past = self._taken_up(folder)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _taken_up(self, folder: OpenFolder) -> JournalContent:
        """Lock the file, put an end to its last line, and return what it tells."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalLocked(f"{_holder(read_journal(folder))} {folder.path}; try again when it has ended") from None
        except OSError:
            pass  # a file system without locks: a run there is better than none
        try:
            text = folder.read(JOURNAL)
            if (whole := text.rfind(b"\n") + 1) < len(text):
                os.ftruncate(self._descriptor, whole)
        except OSError as error:
            raise self._unwritable(error) from None
        return _past_of(self.path, text)

    def write_cancel(self) -> None:
        """Note that this process cleans up after the run."""
        self.write("cancel", pid=os.getpid(), started=start_of(os.getpid()))

    def write(self, what: str, **details: Any) -> None:
        """Note what is about to be done.

        Raises:
            SiteError: the file cannot be written; then it must not be done.
        """
        line = json.dumps({"time": round(time.time(), 3), "what": what, **details}).encode() + b"\n"
        begins = os.fstat(self._descriptor).st_size
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
            os.fdatasync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):  # the disk is full: what was to be done is not, and may not stand there
                os.ftruncate(self._descriptor, begins)
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> SiteError:
        return SiteError(f"the journal of the run cannot be written: {self.path}: {error.strerror}")

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass
class SiteRecord:
    """What the journal says there may be at one site.

    Attributes:
        folder: of the run.
        jobs: the folder of each job below `jobs/`, with its id in the queue (empty: it was about to be submitted).
        reservations: their ids, with the jobs they are for.
        is_clean: everything was removed again.
        has_begun: somebody was told to go since it was clean.
        shared: the folder of what its launcher had there for other runs, too.
    """

    folder: str = ""
    jobs: dict[str, str] = field(default_factory=dict)
    reservations: dict[str, str] = field(default_factory=dict)
    is_clean: bool = False
    has_begun: bool = False
    shared: str = ""


@dataclass
class JournalContent:
    """What a journal tells.

    Attributes:
        launcher: process id and start of the last launcher, as the kernel counts it.
        canceller: the same of who has cleaned up after that launcher last.
    """

    run_id: str = ""
    launcher: tuple[int, str] = (0, "")
    canceller: tuple[int, str] = (0, "")
    sites: dict[str, SiteRecord] = field(default_factory=dict)

    @property
    def unclean(self) -> list[str]:
        """The sites at which something of the run may be left."""
        return [name for name, site in self.sites.items() if not site.is_clean]

    @property
    def is_cancelled(self) -> bool:
        """Whether `xmml cancel` has removed all that the last launcher had left."""
        return bool(self.canceller[0]) and not self.unclean


def read_journal(folder: OpenFolder) -> JournalContent | None:
    """Return what the journal of a run tells; `None` if it has none.

    Raises:
        SiteError: it cannot be read, or is none.
    """
    try:
        text = folder.read(JOURNAL)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SiteError(f"the journal of the run cannot be read: {error.filename}: {error.strerror}") from None
    return _past_of(folder.path / JOURNAL, text)


def _past_of(path: Path, text: bytes) -> JournalContent:
    try:
        return past(whole_lines(text))
    except (ValueError, KeyError, TypeError) as error:
        raise SiteError(f"{path} is not the journal of a run: {error}") from None


def is_alive(process: tuple[int, str]) -> bool:
    """Whether a process still lives that was noted with its number and its start."""
    pid, started = process
    return bool(started) and start_of(pid) == started


def _holder(told: JournalContent | None) -> str:
    """Return which process holds the journal of a run, and for what; one that is not noted yet stays unnamed."""
    if told is not None and is_alive(told.canceller):
        return f"process {told.canceller[0]} is cancelling"
    if told is not None and is_alive(told.launcher):
        return f"process {told.launcher[0]} is launching"
    return "another process is going on with"


def whole_lines(text: bytes) -> Iterator[dict[str, Any]]:
    """Return what the lines of a journal say, without the one that was being written when its launcher was killed.

    Raises:
        ValueError: a line is not JSON.
    """
    *lines, _torn = text.split(b"\n")
    return map(json.loads, lines)


def jobs_at_sites(folder: OpenFolder) -> list[dict[str, str]]:
    """Return the jobs that a run had at sites, each with its id in the queue and the host that it began on."""
    told = []
    with contextlib.suppress(OSError, ValueError):
        for entry in whole_lines(folder.read(JOURNAL)):
            if entry["what"] == "go":
                told.append({key: entry[key] for key in ("site", "job", "id", "host")})
    return told


def programs_at_sites(folder: OpenFolder) -> dict[str, dict[str, str | None]]:
    """Return the hashes of the programs that a run has used at sites: site, path in the model's folder, SHA-256."""
    return _hashes_at_sites(folder, "programs")


def staged_at_sites(folder: OpenFolder) -> dict[str, dict[str, str | None]]:
    """Return the hashes of the files of the model that sites were given: site, path in the model's folder, SHA-256."""
    return _hashes_at_sites(folder, "staged")


def _hashes_at_sites(folder: OpenFolder, what: str) -> dict[str, dict[str, str | None]]:
    told: dict[str, dict[str, str | None]] = {}
    with contextlib.suppress(OSError, ValueError):
        for entry in whole_lines(folder.read(JOURNAL)):
            if entry["what"] == what:
                told[entry["site"]] = entry["sha256"]
    return told


def past(lines: Iterable[Mapping[str, Any]]) -> JournalContent:
    """Return what the lines of a journal tell."""
    told = JournalContent()
    for line in lines:
        what = line["what"]
        site = told.sites.setdefault(line["site"], SiteRecord()) if "site" in line else SiteRecord()
        match what:
            case "launch":
                told.run_id, told.launcher = line["run"], (line["pid"], line["started"])
                told.canceller = (0, "")
            case "cancel":
                told.canceller = line["pid"], line["started"]
            case "prepare":
                site.folder, site.is_clean = line["folder"], False
            case "share":
                site.shared = line["folder"]
            case "submit":
                site.jobs[line["job"]] = ""
            case "submitted":
                site.jobs[line["job"]] = line["id"]
            case "over":
                site.jobs.pop(line["job"], None)
            case "reserve":
                site.reservations[line["name"]] = line["job"]
            case "unreserved":
                site.reservations.pop(line["name"], None)
            case "go":
                for each in told.sites.values():
                    each.has_begun = True
            case "clean":
                site.is_clean, site.has_begun, site.shared = True, False, ""
                site.jobs.clear()
                site.reservations.clear()
    return told
