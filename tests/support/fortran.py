"""Compiles the Fortran programs of the tests with the options that xmml-config prints."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from compiled import PROGRAMS
from xmml_native import config

#: That reals are compared exactly is what tests are about.
STRICT = ["-std=f2008", "-Wall", "-Wextra", "-Wno-compare-reals", "-Werror", "-g"]
#: Without these checks a test would prove little: they see a pointer or index that is wrong.
CHECKED = ["-fcheck=bounds,do,mem,pointer,recursion"]


def behaviours(source: Path) -> list[str]:
    """The names that a test program knows."""
    names = re.findall(r'^ *case \("(\w+)"\)$', source.read_text(), re.MULTILINE)
    assert names, f"{source} has no behaviours"
    return names


@cache
def compiled(*sources: Path, options: tuple[str, ...] = (), static: bool = False) -> Path:
    """Compile a program strictly, once per session; in case of trouble the test fails with the compiler's words."""
    folder = Path(mkdtemp(dir=PROGRAMS.name))
    program = folder / sources[-1].stem
    command = ["gfortran", *STRICT, *CHECKED, *options, "-o", str(program), *map(str, sources)]
    finished = subprocess.run(
        [*command, *config.fflags(), *config.flibs(static=static)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return program
