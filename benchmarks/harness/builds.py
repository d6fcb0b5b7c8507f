"""Compiling the benchmarks' own programs, to build/benchmarks."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness import places, processes


def program(source: Path) -> Path:
    """Where the program from this source is."""
    return places.BUILD / source.stem


def compile_program(compiler: Sequence[str], source: Path, more: Sequence[str] = ()) -> None:
    """Compiles a program in C or C++ of one source file, which may include headers beside it.

    Raises:
        RunFailed: the compiler has errors.
    """
    places.BUILD.mkdir(parents=True, exist_ok=True)
    words = [*compiler, "-O3", "-Wall", "-Wextra", "-o", str(program(source)), str(source), *more]
    done = subprocess.run(words, capture_output=True, text=True, env=places.environment())
    if done.returncode != 0:
        raise processes.RunFailed(f"{' '.join(words)}\n{done.stderr}")


def compile_submodel(source: Path, more: Sequence[str] = ()) -> None:
    """Compiles a submodel in C++ against the installed xMML."""
    config = [str(places.tool("xmml-config") or "xmml-config"), "--cflags", "--libs"]
    flags = subprocess.run(config, capture_output=True, text=True, check=True, env=places.environment()).stdout
    compile_program(["c++", "-std=c++17"], source, [*more, *flags.split()])
