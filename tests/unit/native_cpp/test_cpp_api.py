"""The C++ API: each behaviour of values.cpp and alone.cpp."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from compiled import STRICT, behaviours, compiled, run
from xmml_native import config

HERE = Path(__file__).parent
VALUES, ALONE, SPANS = HERE / "values.cpp", HERE / "alone.cpp", HERE / "spans.cpp"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.parametrize("behaviour", behaviours(VALUES))
def test_of_values(behaviour: str) -> None:
    assert "held" in run(compiled(VALUES), behaviour)


@pytest.mark.parametrize("behaviour", behaviours(SPANS))
def test_of_spans(behaviour: str) -> None:
    assert "held" in run(compiled(SPANS, "-std=c++20"), behaviour)


@pytest.mark.parametrize("behaviour", behaviours(ALONE))
def test_of_an_instance_by_itself(behaviour: str) -> None:
    assert "held" in run(compiled(ALONE), behaviour)


@pytest.mark.parametrize("source", [VALUES, ALONE], ids=lambda source: source.stem)
def test_no_behaviour_leaks_or_touches_what_it_must_not(source: Path) -> None:
    program = compiled(source, *SANITIZED)
    for behaviour in behaviours(source):
        run(program, behaviour)


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
