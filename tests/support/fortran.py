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
#: The types of elements, and how they follow from their `places`, which count from 1.
TYPES = {
    "integer(int8)": "int(places, int8)",
    "integer(int16)": "int(places, int16)",
    "integer(int32)": "places",
    "integer(int64)": "int(places, int64) * 2_int64**40",
    "real(real32)": "real(places, real32) / 4",
    "real(real64)": "real(places, real64) / 4",
    "complex(real32)": "cmplx(places, -places, real32)",
    "complex(real64)": "cmplx(places, -places, real64)",
    "logical": "mod(places, 3) == 0",
    "logical(c_bool)": "logical(mod(places, 3) == 0, c_bool)",
}


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
