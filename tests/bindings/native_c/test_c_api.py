"""The C API: what a C programmer's tools see of the library (what it does: test_behaviours.py)."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from pathlib import Path

import pytest
from compiled import STRICT, compiled
from waiting import LIMIT_S
from xmml_native import config
from xmml_native._native import Coordinator
from xmml_native.alone import spec_from_ports

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.mark.parametrize(
    "compiler", ["cc -std=c99", "cc -std=c11", "cc -std=c17", "c++ -std=c++11 -x c++", "c++ -std=c++20 -x c++"]
)
def test_the_header_compiles_alone(compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.c"
    source.write_text("#include <xmml.h>\nint main(void) { return xmml_version() == 0; }\n")
    command = [*compiler.split(), *STRICT, *config.cflags(), "-fsyntax-only", str(source)]
    subprocess.run(command, check=True)


def test_the_library_has_what_the_header_declares_and_nothing_else() -> None:
    header = "".join(
        (ROOT / f"native/c/include/{name}.h").read_text()
        for name in ("xmml", "xmml_team", "xmml_handles", "xmml_callbacks", "xmml_pools", "xmml_path")
    )
    code = re.sub(r"#define.*", "", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL))
    declared = set(re.findall(r"\b(xmml_\w+)\(", code))
    library = config.SDK / "lib/libxmml.so.0"
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in symbols.splitlines()}
    assert declared - exported == set()
    assert exported - declared == set()


def test_the_library_says_its_interface_in_its_soname() -> None:
    library = config.SDK / "lib/libxmml.so.0"
    headers = subprocess.run(["objdump", "-p", library], capture_output=True, text=True, check=True).stdout
    assert re.search(r"SONAME +libxmml\.so\.0$", headers, re.MULTILINE)


def test_the_heater_of_the_tutorial_compiles_without_warnings(tmp_path: Path) -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    (program,) = re.findall(r"```c\n(.*?)```", tutorial, re.DOTALL)
    source = tmp_path / "heater.c"
    source.write_text(program)
    compiled(source)


def test_a_line_that_is_printed_reaches_a_pipe_at_once(tmp_path: Path) -> None:
    secret = secrets.token_bytes(32)
    secret_file = tmp_path / "secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text(secret.hex())
    coordinator = Coordinator("run", secret)
    try:
        coordinator.define(spec_from_ports("a", {}, delta=1.0, steps=1, params={}))
        environment = {
            "XMML_INSTANCE": "a",
            "XMML_COORDINATOR": ",".join(coordinator.addresses),
            "XMML_SECRET_FILE": str(secret_file),
        }
        with subprocess.Popen(
            [compiled(HERE / "lines.c")],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            assert [program.stdout.readline(), program.stdout.readline()] == ["before\n", "after\n"]
            program.stdin.close()
            assert program.wait(LIMIT_S) == 0
    finally:
        coordinator.close()
