"""The files of a run at a site: those of the model are laid out, and those that it has made are listed.

Like the agent, which calls it there, this needs nothing but Python's own library.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

#: How long a staged file is kept that no run wants.
KEPT_S = 14 * 86400.0
#: What is compared and sent of a file of which there is an earlier version [bytes]. Smaller files are sent whole.
RANGE_BYTES = 256 * 1024
#: The length of the digest of a range, in hexadecimal. Whether a file is whole is told by its SHA-256.
DIGEST_CHARACTERS = 32
#: Ends the name of a file that says what has changed since an earlier version: a line of JSON with that version's hash,
#: the size, and the numbers of the ranges, whose bytes follow.
CHANGES = ".changes"
#: The folder in the store that says, for the path of a file in its model, which version was wanted last.
VERSIONS = "versions"


def stage(run: str) -> int:
    """Make `model/` of the store if it holds everything; say which hashes are missing, and of which of these files
    there is an earlier version. Files that nobody has wanted for a while leave the store."""
    order = json.load(sys.stdin)
    store, model = order["store"], os.path.join(run, "model")
    os.makedirs(os.path.join(store, VERSIONS), mode=0o700, exist_ok=True)
    incoming = os.path.join(run, "incoming")
    # Only whole files get a name in the store: another run may be looking at it, or bring the same file.
    for name in os.listdir(incoming) if os.path.isdir(incoming) else ():
        if name.endswith(".part"):  # of a launcher that was killed
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(incoming, name))
        elif name.endswith(CHANGES):
            with contextlib.suppress(FileNotFoundError):  # the version has left the store meanwhile
                apply_changes(os.path.join(incoming, name), store)
            os.unlink(os.path.join(incoming, name))
        else:
            os.replace(os.path.join(incoming, name), os.path.join(store, name))
    missing = sorted({sha for _, sha, *_ in order["files"] if not is_whole(os.path.join(store, sha), sha)})
    versions = {path: last_version(store, path) for path, sha, *_ in order["files"] if sha in missing}
    if not missing:
        for path, sha, mode, written in order["files"]:
            file = os.path.join(model, path)
            os.makedirs(os.path.dirname(file), exist_ok=True)
            if path in order.get("images", ()) and is_linked(os.path.join(store, sha), file):
                note_version(store, path, sha)
                continue
            copy(os.path.join(store, sha), file)
            os.chmod(file, mode)
            os.utime(file, ns=(written, written))
            note_version(store, path, sha)
        forget_old(store)
        forget_old(os.path.join(store, VERSIONS))
    print(json.dumps({"missing": missing, "versions": {path: each for path, each in versions.items() if each}}))
    return 0


def copy(source: str, target: str) -> None:
    """Copy a file; where the file system can, both share their blocks until one of them is written."""
    with open(source, "rb") as reading, open(target, "wb") as writing:
        try:
            while os.copy_file_range(reading.fileno(), writing.fileno(), 1 << 30):
                pass
        except OSError:  # not across these file systems
            writing.truncate(0)
            writing.seek(0)
            reading.seek(0)
            shutil.copyfileobj(reading, writing, 1 << 20)


def range_digests(file: BinaryIO) -> Iterator[str]:
    """Yield the digest of each range of a file, from where it stands."""
    while chunk := file.read(RANGE_BYTES):
        yield hashlib.blake2b(chunk, digest_size=DIGEST_CHARACTERS // 2).hexdigest()


def version_note(store: str, path: str) -> str:
    """Return the file that says which version of a file was wanted last."""
    return os.path.join(store, VERSIONS, hashlib.sha256(path.encode()).hexdigest())


def note_version(store: str, path: str, sha256: str) -> None:
    """Note the version of a file that is wanted; another run may do so at the same time."""
    file = version_note(store, path)
    new = f"{file}.{os.getpid()}"
    with open(new, "w", encoding="ascii") as note:
        note.write(sha256)
    os.replace(new, file)


def last_version(store: str, path: str) -> dict[str, str] | None:
    """Return the hash of the last version of a file, and the digests of its ranges, one after the other; `None` if
    there is none that is worth comparing."""
    try:
        with open(version_note(store, path), encoding="ascii") as note:
            sha256 = note.read()
        with open(os.path.join(store, sha256), "rb") as file:
            if os.fstat(file.fileno()).st_size <= RANGE_BYTES:
                return None
            return {"sha256": sha256, "digests": "".join(range_digests(file))}
    except (OSError, ValueError):
        return None


def apply_changes(changes: str, store: str) -> None:
    """Make a file in the store of an earlier version and what has changed since. If it is not what its name says, it is
    found to be missing later."""
    sha256 = os.path.basename(changes)[: -len(CHANGES)]
    part = changes + ".part"
    with open(changes, "rb") as file:
        head = json.loads(file.readline())
        copy(os.path.join(store, head["base"]), part)
        with open(part, "r+b") as whole:
            for number in head["ranges"]:
                whole.seek(number * RANGE_BYTES)
                whole.write(file.read(RANGE_BYTES))
            whole.truncate(head["size"])
    os.replace(part, os.path.join(store, sha256))


def is_linked(kept: str, file: str) -> bool:
    """Give a file of the store another name, which costs no room; return whether that could be done."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file)
    try:
        os.link(kept, file)
    except OSError:  # another disk, or one that knows no links
        return False
    return True


def sha256_of(path: str) -> str | None:
    """Return the hash of a file; `None` if it is not there."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def is_whole(path: str, sha256: str) -> bool:
    """Return whether the store holds a file as it should be; one that was damaged is removed."""
    found = sha256_of(path)
    if found is not None and found != sha256:
        os.unlink(path)
    elif found is not None:
        os.utime(path)
    return found == sha256


def forget_old(store: str) -> None:
    """Remove what has not been wanted for a long time."""
    for entry in os.scandir(store):
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > KEPT_S:
                os.unlink(entry.path)


def list_results(run: str) -> int:
    """Print the paths, relative to the run's folder, of the files asked for that are there, and of logs and results in
    folders: what the patterns name, else all that was left in a working folder, if that is not too much; and the
    working folders of which it is."""
    order = json.load(sys.stdin)
    found = [path for file in order["files"] if os.path.isfile(path := os.path.join(run, file))]
    too_large = []
    for folder, patterns in order["folders"].items():
        top = os.path.join(run, folder)
        found += [os.path.join(top, name) for name in ("stdout", "stderr") if os.path.isfile(os.path.join(top, name))]
        work = os.path.join(top, "work")
        if patterns:
            matches = [path for pattern in patterns for path in glob.glob(os.path.join(work, pattern), recursive=True)]
            found += [file for match in matches for file in files_below(match)]
        else:
            files = list(files_below(work))
            if sum(os.path.getsize(file) for file in files) <= order["most_bytes"]:
                found += files
            else:
                too_large.append(os.path.relpath(work, run))
    print(json.dumps({"found": sorted({os.path.relpath(path, run) for path in found}), "too_large": too_large}))
    return 0


def hash_programs(run: str) -> int:
    """Print the hashes of programs of the model, by their paths in its folder; `null` for one that is not there."""
    paths = json.load(sys.stdin)["files"]
    print(json.dumps({path: sha256_of(os.path.join(run, "model", path)) for path in paths}))
    return 0


def files_below(path: str) -> Iterator[str]:
    """Return a file, or the plain files below a folder."""
    if os.path.isfile(path):
        yield path
    for parent, _, names in os.walk(path):
        for name in names:
            file = os.path.join(parent, name)
            if os.path.isfile(file) and not os.path.islink(file):
                yield file
