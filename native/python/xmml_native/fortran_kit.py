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
SOURCES = ["xmml.f90"]
MPI_SOURCES = [*SOURCES, "xmml_mpi.f90", "xmml_mpi.c"]


class CompilerError(Exception):
    """There is no Fortran compiler, or it does not compile the module."""


def compiler(*, mpi: bool = False) -> list[str]:
    """Return the words of the compiler command: $FC, else gfortran, or MPI's wrapper of it."""
    return shlex.split(os.environ.get("FC", "")) or ["mpifort" if mpi else "gfortran"]


def compiled(kit: Path, command: Sequence[str] | None = None, *, mpi: bool = False) -> Path:
    """Return the folder that holds the module files and objects for this compiler; compile them if that was not done.

    Args:
        kit: the folder with the sources: xmml.f90, and for MPI xmml_mpi.f90 and xmml_mpi.c.
        command: the compiler, else `compiler()`.
        mpi: whether to compile what MPI programs need, too.

    Raises:
        CompilerError: with the words of the compiler.
    """
    command = compiler(mpi=mpi) if command is None else list(command)
    # What a wrapper of MPI calls says which MPI it is.
    identity = _run([*command, "--version"], "to say its version") + (_run([*command, "-show"], "") if mpi else "")
    sources = [kit / name for name in (MPI_SOURCES if mpi else SOURCES)]
    told = [source.read_bytes() for source in sources] + [identity.encode(), repr(OPTIONS).encode()]
    if mpi:
        told.append((kit.parent / "include/xmml_mpi.h").read_bytes())
    name = f"compiled-{hashlib.sha256(b''.join(told)).hexdigest()[:16]}"
    for parent in (kit, _cache()):
        if (parent / name).exists():
            return parent / name
    for parent in (kit, _cache()):
        try:
            parent.mkdir(parents=True, exist_ok=True)
            workplace = tempfile.TemporaryDirectory(dir=parent, prefix="compiling-")
        except OSError:
            continue
        with workplace as folder:
            made = Path(folder) / name
            made.mkdir()
            for source in sources:
                _compile(command, source, made)
            try:
                made.rename(parent / name)
            except OSError:  # another process was faster; it made the same
                if not (parent / name).exists():
                    raise
        return parent / name
    raise CompilerError(f"neither {kit} nor {_cache()} can be written to; let XDG_CACHE_HOME name a folder that can")


def objects(folder: Path) -> list[Path]:
    """Return what is to be linked, of a folder that `compiled` returned."""
    return sorted(folder.glob("*.o"))


def _compile(command: Sequence[str], source: Path, folder: Path) -> None:
    include: list[str] = []
    if source.suffix == ".c":
        command = shlex.split(os.environ.get("MPICC", "")) or ["mpicc"]
        include = [f"-I{source.parents[1] / 'include'}"]
    target = f"{source.stem}{'_c' if source.suffix == '.c' else ''}.o"
    # Some compilers know no option for the folder of module files, but all write to the working folder.
    _run([*command, *OPTIONS, *include, "-c", str(source), "-o", target], "to compile the Fortran API", folder=folder)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xmml"


def _run(command: Sequence[str], purpose: str, folder: Path | None = None) -> str:
    try:
        finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CompilerError(
            f"the compiler {command[0]} cannot be started ({problem.strerror}); "
            "install gfortran (apt-get install gfortran; for MPI also libopenmpi-dev), "
            "or name another compiler by the environment variable FC"
        ) from None
    if finished.returncode != 0:
        raise CompilerError(f"{command[0]} failed {purpose}:\n{finished.stderr.strip()}")
    return finished.stdout
