"""The files of a model's folder: which of them belong to the model, and which a build has made of the others.

A file that a build made here is no source. A site that builds the same program must not get it: with such a file beside
its sources, `make` may take the old program for up to date. So each run notes what its builds create, in
`.xmml/built.json` in the folder of the model, and staging leaves those files out.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path

from xmml.files import FileUnreadable, read_bytes

#: The folder, in that of the model, in which xMML keeps notes of its own.
NOTES = ".xmml"
#: What of a model's folder is never part of the model: results, version control, caches.
LEFT_OUT = frozenset({NOTES, "runs", "__pycache__", ".git", ".snakemake", ".pytest_cache", ".mypy_cache", ".venv"})
_RECORD = "built.json"


def files_below(path: Path) -> Iterator[Path]:
    """Yield a file itself, or the files below a folder, without what is never part of a model."""
    if not path.is_dir():
        yield path
        return
    for parent, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT and not _is_run(Path(parent) / name))
        for name in sorted(names):
            if (file := Path(parent) / name).is_file():
                yield file


def _is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run, which is no part of a model and may be growing just now."""
    return all((folder / name).is_file() for name in ("plan.json", "events.jsonl"))


def names_below(folder: Path) -> frozenset[str]:
    """Return the files of a model's folder, by their paths relative to it."""
    return frozenset(str(file.relative_to(folder)) for file in files_below(folder))


def notes_folder(folder: Path) -> Path:
    """Return the folder for notes of xMML in that of a model; make it if it is not there.

    Raises:
        OSError: it cannot be made.
    """
    notes = folder / NOTES
    if not notes.is_dir():
        notes.mkdir(exist_ok=True)
        (notes / ".gitignore").write_text("*\n")
    return notes


def note_built(folder: Path, before: Collection[str]) -> None:
    """Add to the record what builds have made: files that were not there before.

    One that was, and was written meanwhile, may be a source that somebody has just saved. A folder that cannot be
    written keeps no record; no build can make files there either.
    """
    made = names_below(folder).difference(before)
    known = built_before(folder)
    if made <= known:
        return
    with contextlib.suppress(OSError):
        notes = notes_folder(folder)
        record = notes / f"{_RECORD}.{os.getpid()}"
        record.write_text(json.dumps(sorted(path for path in made | known if (folder / path).is_file()), indent=0))
        record.replace(notes / _RECORD)  # whole or not at all, also beside another run of the same model


def built_before(folder: Path) -> frozenset[str]:
    """Return the files that builds of earlier runs have made, by their paths relative to the folder of the model."""
    try:
        record = json.loads(read_bytes(folder / NOTES / _RECORD))
    except (FileUnreadable, ValueError, RecursionError):
        return frozenset()
    return frozenset(path for path in record if isinstance(path, str)) if isinstance(record, list) else frozenset()
