"""What a run leaves: `runs/<model>-<time>/` with the model, the plan, the events, each instance's output and working
folder, and reports."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from xmml_native.mto import relay_key
from xmml_planner import Plan, PlannedInstance
from xmml_planner.hosting import members

from xmml.files import FileUnreadable, open_file
from xmml.patterns import Search
from xmml_executors.limits import explained
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import Outcome, SiteError
from xmml_executors.run_lock import RunLocked, own
from xmml_executors.run_seal import seal, user_name

#: The file that says where people can ask how the run goes, as long as it goes on.
DOOR = ".questions"
#: The file with the secret of the run, as long as it goes on, and that with its events.
SECRET, EVENTS = ".secret", "events.jsonl"
#: How often it is seen to that the path of the folder is still its own [s].
SEEN_EVERY_S = 0.5
#: Bytes of the secret that authenticates the members of a run.
SECRET_BYTES = 32
#: Who can read the folder of a run.
OF_OWNER, OF_GROUP = 0o700, 0o750
#: How much of a file is copied at a time [bytes].
PIECE = 2**20
#: Where an instance works, in its folder.
WORK = "work"

_encode = json.JSONEncoder(ensure_ascii=False).encode


class FolderTaken(Exception):
    """The folder asked for already holds something; the text says which."""


class RunFolder:
    """The folder of one run, open for writing, and owned: nobody else carries out the run meanwhile.

    Methods that name a file do so relative to the folder.

    Attributes:
        files: the folder; what xMML reads and writes in it goes through this.
        path: absolute; for messages, and for programs.
        run_id: names the run among all runs: the folder's name and a random part.
        staged: the SHA-256 of what `run:stage-in` has copied here: instance, path in the folder of the model.
        unsealed: why nobody can go on with the run if this process is killed, or clean up after it; mostly empty.
    """

    def __init__(
        self,
        place: Path | OpenFolder,
        plan: Plan,
        resumed: str | None = None,
        known_as: tuple[str, bytes] | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        """Make the folder and those of the instances.

        Args:
            place: where the folder is made; or the folder of a run that was interrupted, which is closed with this one.
            resumed: the name of the run if it is one that was interrupted and now goes on in its folder.
            known_as: the name and the secret of the run, if others know them already.
            is_shared: the group of the folder may read it; else only its owner.

        Raises:
            FolderTaken: there is something in it, or it is not this user's alone.
            SiteError: it cannot be made or written, or somebody else carries out its run.
        """
        self.path = (place.path if isinstance(place, OpenFolder) else place).absolute()
        self.run_id = resumed or f"{self.path.name}-{os.urandom(4).hex()}"
        self.secret = os.urandom(SECRET_BYTES)
        if known_as is not None:
            self.run_id, self.secret = known_as
        self.secret_file = self.path / SECRET
        self.staged: dict[str, dict[str, str]] = {}
        self._events: TextIO | None = None
        self._looked_at = time.monotonic()
        self._owned: BinaryIO | None = None
        try:
            text = plan.text.encode()
        except UnicodeEncodeError:
            raise SiteError(
                f"the folder {plan.model_folder!a} has a name that is not text in this locale; "
                "set LC_ALL=C.UTF-8, or rename it"
            ) from None
        try:
            mode = OF_GROUP if is_shared else OF_OWNER
            self.files = place if isinstance(place, OpenFolder) else _made(self.path, mode)
            self._owned = own(self.files)
            if resumed is None:
                self.files.write("plan.json", text)
            for instance in plan.instances:
                if instance.rank_of is None:
                    self.files.make_folder(self.work(instance))
            for process in members(plan):
                self.files.make_folder(process)
            self.files.remove(SECRET)
            self.files.write(SECRET, self.secret.hex().encode(), 0o600)
            self.unsealed = self._seal()
            events = self.files.open(EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            self._events = open(events, "a", encoding="utf-8")  # noqa: SIM115 - open as long as the run
        except RunLocked as error:
            raise SiteError(str(error)) from None
        except PermissionError as error:
            raise SiteError(f"{self.unwritable(error)}; name another folder with -o") from None
        except OSError as error:
            raise self.unwritable(error) from None

    def _seal(self) -> str:
        try:
            seal(self.files, self.run_id)
        except OSError as error:
            return f"{error.filename}: {explained(error)}"
        return ""

    @property
    def relay_key(self) -> str:
        """What relays are given instead of the secret: they need no more to let its processes in."""
        return relay_key(self.secret)

    def work(self, instance: PlannedInstance) -> str:
        """The working folder of an instance."""
        return f"{instance.folder}/{WORK}"

    def log(self, instance: str, stream: str) -> str:
        """The file that holds what an instance wrote to `stdout` or `stderr`."""
        return f"instances/{instance}/{stream}"

    def build_log(self, number: int) -> str:
        """The file that holds what the build with this number (from 1) wrote."""
        return f"builds/{number}.log"

    def unwritable(self, error: OSError) -> SiteError:
        """Return the error that says that the folder cannot be written."""
        where = error.filename or self.path
        return SiteError(f"the run folder cannot be written: {where}: {explained(error)}")

    def event(self, what: str, *, site: str, instance: str | None = None, **details: Any) -> None:
        """Add a line to `events.jsonl`; others see it after the next `flush`.

        Raises:
            SiteError: the file cannot be written.
        """
        line = {"time": round(time.time(), 6), "site": site, "instance": instance, "what": what, **details}
        if self._events is None:
            return
        try:
            self._events.write(_encode(line) + "\n")
        except OSError as error:
            self._events = None
            raise self.unwritable(error) from None

    def flush(self) -> None:
        """Let others read the events so far.

        Raises:
            SiteError: the file cannot be written, or has been removed, which most likely the folder has; or the folder
                has been exchanged for another.
        """
        if self._events is None:
            return
        try:
            self._events.flush()
            # Some file systems count no links: then it is gone if its name is.
            is_removed = os.fstat(self._events.fileno()).st_nlink == 0 and self.files.status(EVENTS) is None
        except OSError as error:
            self._events = None
            raise self.unwritable(error) from None
        if is_removed:
            self._events = None
            raise SiteError(f"{self.path / EVENTS} was removed while the run went on; nobody could read its results")
        if (now := time.monotonic()) >= self._looked_at + SEEN_EVERY_S:
            self._looked_at = now
            if self.files.is_replaced():
                self._looked_at = math.inf  # that is told once
                raise SiteError(
                    f"{self.path} was exchanged for something else while the run went on; what the run has written is "
                    "where its folder was moved to"
                )

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder.

        Raises:
            SiteError: it cannot be written.
        """
        try:
            self.files.write(name, text.encode())
        except OSError as error:
            raise self.unwritable(error) from None

    def make_folder(self, name: str) -> None:
        """Make a folder.

        Raises:
            SiteError: that is not possible.
        """
        try:
            self.files.make_folder(name)
        except OSError as error:
            raise self.unwritable(error) from None

    def stage_in(self, plan: Plan) -> None:
        """Copy the files that instances want beside them into their working folders.

        Raises:
            SiteError: a file does not exist or cannot be copied.
        """
        for instance in plan.instances:
            for pattern in instance.stage_in:
                sources = Search().matches(plan.model_folder, pattern)
                if not sources:
                    raise SiteError(
                        f'instance "{instance.name}": no file matches run:stage-in "{pattern}" in {plan.model_folder}'
                    )
                hashes = self.staged.setdefault(instance.name, {})
                try:
                    copied = self._copy_to(self.work(instance), sources)
                except FileUnreadable as error:
                    raise SiteError(f'instance "{instance.name}": run:stage-in "{pattern}": {error}') from None
                except OSError as error:
                    raise self.unwritable(error) from None
                hashes.update({os.path.relpath(path, plan.model_folder): copied[path] for path in copied})

    def _copy_to(self, name: str, sources: Sequence[str]) -> dict[str, str]:
        """Copy files and folders into a folder below; return the SHA-256 of each file."""
        hashes: dict[str, str] = {}
        with self.files.below(name) as folder:
            for source in sources:
                try:
                    hashes |= _copy_all(source, os.path.join(folder.lasting_path, os.path.basename(source)))
                except OSError as error:
                    raise folder.told(error) from None
        return hashes

    def results(self, instance: PlannedInstance) -> list[Path]:
        """The files of an instance that its `run:stage-out` calls results.

        Raises:
            SiteError: its working folder cannot be read.
        """
        if not instance.stage_out:
            return []
        try:
            work = self.files.below(self.work(instance))
        except FileNotFoundError:  # its program has removed it
            return []
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            raise SiteError(f"the results of {instance.name} cannot be read: {why}") from None
        with work:
            place = work.lasting_path
            found = {path for pattern in instance.stage_out for path in Search().matches(str(place), pattern)}
            return [Path(self.work(instance)) / Path(path).relative_to(place) for path in sorted(found)]

    def close(self) -> None:
        """Remove the secret, close the events, and own the run no more."""
        self.files.remove(SECRET)
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._owned is not None:
            self._owned.close()
            self._owned = None
        self.files.close()


def _made(path: Path, mode: int) -> OpenFolder:
    """Make a folder for a run, or take an empty one of this user.

    Raises:
        FolderTaken: it is not empty, or others can put something in it or another in its place.
        OSError: it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
    parent = os.stat(path.parent)
    if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
        raise FolderTaken(
            f"everybody can put another folder in the place of {path}: {path.parent} is writable for all; "
            "name another with -o"
        )
    taken = FolderTaken(f"the folder {path} is not empty; name another with -o, or remove it")
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        folder = OpenFolder(path)
    else:
        folder = OpenFolder(path, follow=False)
    try:
        if folder.names():
            raise taken
        if (owner := os.fstat(folder.fileno()).st_uid) != os.geteuid():
            raise FolderTaken(f"the folder {path} belongs to {user_name(owner)}; name another with -o")
        os.fchmod(folder.fileno(), mode)
        if folder.names():
            raise taken
    except BaseException:
        folder.close()
        raise
    return folder


def relay_log(site: str) -> str:
    """Return where the log of a site's relay lies in the folder of a run, here and at the site."""
    return f"relays/{site}.log"


def new_folder(parent: Path, model: str) -> Path:
    """Return the path of a folder for a run that starts now: `<model>-<time>`, with a number if that is taken."""
    name = f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = parent / name, 2
    while path.exists():
        path, number = parent / f"{name}-{number}", number + 1
    return path


def summary_of(
    outcome: Outcome, folder: Path, wall_s: float, instances: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return what `xmml-run --json` prints; it is also the last of the run's events."""
    return {
        "status": outcome.exit_status.word,
        "exit_status": int(outcome.exit_status),
        "reason": outcome.reason or None,
        "instance": outcome.instance,
        "log": outcome.log,
        "run_dir": str(folder),
        "wall_s": round(wall_s, 6),
        "instances": dict(instances),
    }


def _copy_all(source: str, target: str) -> dict[str, str]:
    """Copy a file, or a folder with all that is in it and what links in it lead to; return the SHA-256 of each file.

    Raises:
        FileUnreadable: something cannot be read, or is a pipe, a device or a socket.
        OSError: the copy cannot be written.
    """
    if not os.path.isdir(source):
        return {source: _copy_hashed(source, target)}
    hashes: dict[str, str] = {}
    folders = [(source, target)]
    os.makedirs(target, exist_ok=True)
    for path, is_folder in Search().below(source):
        copy = os.path.join(target, os.path.relpath(path, source))
        if is_folder:
            os.makedirs(copy, exist_ok=True)
            folders.append((path, copy))
        else:
            hashes[path] = _copy_hashed(path, copy)
    for path, copy in reversed(folders):
        shutil.copystat(path, copy)  # a folder that cannot be written is filled first
    return hashes


def _copy_hashed(source: str, target: str) -> str:
    """Copy a file with its permissions and times; return its SHA-256. It is read once."""
    digest = hashlib.sha256()
    try:
        reading = open_file(source)
    except FileUnreadable as error:
        raise FileUnreadable(f"{source} cannot be copied: {error}") from None
    with reading, open(target, "wb") as writing:
        while piece := reading.read(PIECE):
            digest.update(piece)
            writing.write(piece)
    shutil.copystat(source, target)
    return digest.hexdigest()
