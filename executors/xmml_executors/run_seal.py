"""The seal of a run's folder: it shows that this folder was made by a run of this user.

A plan and a journal say what is executed and removed, here and at sites. So a folder that comes from somebody else, in
an archive or in a place where others write, is looked at, but nothing that it says is done. The seal is a keyed hash of
the name of the run, of its plan, and of the folder itself (its inode): a copy of a sealed folder is not sealed.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from xmml_executors.open_folder import OpenFolder

#: The file, in the folder of the run.
SEAL = ".seal"
#: Bytes of the key of a user.
KEY_BYTES = 32
#: No run makes a longer seal [characters] or a larger plan; a file of somebody else may have any size.
LONGEST_SEAL, LARGEST_PLAN_BYTES = 4096, 1 << 30


class NotOurs(Exception):
    """A folder that no run of this user has made; the text says why that is known."""


def seal(folder: OpenFolder, run_id: str) -> None:
    """Seal the folder of a run, which has its plan.

    Raises:
        OSError: the key or the seal cannot be written.
    """
    text = json.dumps({"run": run_id, "hash": _hash(_key(), folder, run_id)})
    folder.remove(SEAL)
    folder.write(SEAL, text.encode(), 0o600)


def sealed_run(folder: OpenFolder) -> str:
    """Return the name of the run that has made a folder.

    Raises:
        NotOurs: no run of this user has made it, or others can write in it.
    """
    try:
        check_owner(folder)
        plan = folder.status("plan.json")
        if plan is None or not stat.S_ISREG(plan.st_mode) or plan.st_size > LARGEST_PLAN_BYTES:
            raise NotOurs(f"{folder.path} was not made by a run of yours: its plan is no file, or too large for one")
        with folder.open_to_read(SEAL) as opened:
            found = json.loads(opened.read(LONGEST_SEAL))
        run_id, claimed = found["run"], found["hash"]
        expected = _hash(_key(), folder, run_id)
        if not hmac.compare_digest(claimed.encode(), expected.encode()):
            raise NotOurs(f"{folder.path} is a copy, or was not made by a run of yours: its seal does not fit")
    except OSError as error:
        raise NotOurs(f"{folder.path} was not made by a run of yours: {error.filename}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise NotOurs(f"{folder.path} was not made by a run of yours: {folder.path / SEAL} is no seal") from None
    return str(run_id)


def is_ours(folder: OpenFolder) -> bool:
    """Whether a run of this user has made a folder."""
    with suppress(NotOurs):
        return bool(sealed_run(folder))
    return False


def check_owner(folder: OpenFolder) -> None:
    """Check that a folder belongs to this user, and that nobody else can write in it.

    Raises:
        NotOurs: it does not, or others can.
        OSError: it cannot be looked at.
    """
    found = os.fstat(folder.fileno())
    if found.st_uid != os.geteuid():
        raise NotOurs(f"{folder.path} belongs to {user_name(found.st_uid)}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotOurs(f"{folder.path} can be written by others; chmod go-w {folder.path} keeps them out")


def user_name(uid: int) -> str:
    """Return what a user is called."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _hash(key: bytes, folder: OpenFolder, run_id: str) -> str:
    plan = hashlib.sha256(folder.read("plan.json")).hexdigest()
    sealed = json.dumps(["xmml run", run_id, plan, os.fstat(folder.fileno()).st_ino])
    return hmac.new(key, sealed.encode(), "sha256").hexdigest()


def _key() -> bytes:
    """Return the key of this user, which is made when it is first needed."""
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    except RuntimeError:  # a user whom the system does not know, as in some containers
        raise FileNotFoundError(errno.ENOENT, "there is no home directory; set XDG_STATE_HOME", "~") from None
    path = state / "xmml/run.key"
    with suppress(FileNotFoundError):
        return _read_key(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".run.key.{os.getpid()}.{os.urandom(4).hex()}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(os.urandom(KEY_BYTES))
    try:
        with suppress(FileExistsError):  # of two commands that begin at once, both have the key of the first
            os.link(fresh, path)
    finally:
        fresh.unlink()
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            why = "it must belong to you, and be readable by nobody else (chmod 600)"
            raise PermissionError(errno.EPERM, why, str(path))
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise OSError(errno.EINVAL, "it is no key; without it, earlier runs can no longer be resumed", str(path))
    return key
