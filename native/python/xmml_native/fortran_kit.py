"""The Fortran API of the development kit, compiled for the compiler at hand.

Module files (.mod) are readable only to the compiler, and often only to the version of it, that wrote them. So the
kit holds the source, and the first `xmml-config --fflags` for a compiler compiles it: beside the source, or in the
user's cache where the kit may not be written to.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Position-independent, so that the module can become a part of a shared library.
OPTIONS = ["-O2", "-fPIC"]


class CompilerError(Exception):
    """There is no Fortran compiler, or it does not compile the module."""


def compiler() -> list[str]:
    """Return the words of the compiler command: $FC, else gfortran."""
    return shlex.split(os.environ.get("FC", "")) or ["gfortran"]


def compiled(source: Path, command: Sequence[str] | None = None) -> Path:
    """Return the folder that holds xmml.mod and xmml.o for this compiler; compile them if that was not done before.

    Raises:
        CompilerError: with the words of the compiler.
    """
    command = compiler() if command is None else list(command)
    identity = _run([*command, "--version"], "to say its version")
    digest = hashlib.sha256(b"\0".join([source.read_bytes(), identity.encode(), " ".join(OPTIONS).encode()]))
    name = f"compiled-{digest.hexdigest()[:16]}"
    for parent in (source.parent, _cache()):
        if (parent / name / "xmml.o").exists():
            return parent / name
    for parent in (source.parent, _cache()):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            workplace = tempfile.TemporaryDirectory(dir=parent, prefix="compiling-")
        except OSError:
            continue
        with workplace as folder:
            made = Path(folder) / name
            made.mkdir()
            # Some compilers know no option for the folder of module files, but all write to the working folder.
            _run([*command, *OPTIONS, "-c", str(source), "-o", "xmml.o"], "to compile the Fortran API", folder=made)
            try:
                made.rename(parent / name)
            except OSError:  # another process was faster; it made the same
                if not (parent / name / "xmml.o").exists():
                    raise
        return parent / name
    raise CompilerError(
        f"neither {source.parent} nor {_cache()} can be written to; let XDG_CACHE_HOME name a folder that can"
    )


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xmml"


def _run(command: Sequence[str], purpose: str, folder: Path | None = None) -> str:
    try:
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CompilerError(
            f"the Fortran compiler {command[0]} cannot be started ({problem.strerror}); "
            "install gfortran (apt-get install gfortran), or name another compiler by the environment variable FC"
        ) from None
    if finished.returncode != 0:
        raise CompilerError(f"the Fortran compiler {command[0]} failed {purpose}:\n{finished.stderr.strip()}")
    return finished.stdout
