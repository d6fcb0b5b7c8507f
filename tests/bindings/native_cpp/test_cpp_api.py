"""The C++ API: how its header compiles (what it does: native_c/test_behaviours.py)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compiled import STRICT, compiled, run
from xmml_native import config


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_header_compiles_alone(standard: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text("#include <xmml.hpp>\nint main() { return xmml::dtype_of<double>() != XMML_F64; }\n")
    command = [
        "c++",
        f"-std={standard}",
        *STRICT,
        "-Wconversion",
        "-Wshadow",
        *config.cflags(),
        "-fsyntax-only",
        str(source),
    ]
    subprocess.run(command, check=True)


def test_the_macros_of_the_c_header_do_not_get_in_the_way(tmp_path: Path) -> None:
    source = tmp_path / "both.cpp"
    source.write_text(
        "#include <xmml.h>\n#include <xmml.hpp>\nint main() { return xmml::Value(1).data().as<int>() != 1; }\n"
    )
    run(compiled(source))
