"""The programs of docs/wide-area.md, as printed."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from compiled import compiled
from printed import DOCS, write
from xmml_native import config

PAGE = "wide-area.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shown = write(PAGE, tmp_path)
    assert set(shown) == {"tokyo.py", "amsterdam.py", "amsterdam.c", "amsterdam.cpp"}
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(secrets.token_hex(32))
    return tmp_path


@pytest.mark.parametrize("program", ["amsterdam.py", "amsterdam.c", "amsterdam.cpp"])
def test_a_program_prints_what_the_page_says(folder: Path, program: str) -> None:
    source = folder / program
    command = [sys.executable, str(source)] if source.suffix == ".py" else [str(compiled(source))]
    with subprocess.Popen([sys.executable, "tokyo.py"], cwd=folder, stdout=subprocess.PIPE, text=True) as tokyo:
        assert tokyo.stdout is not None
        address = tokyo.stdout.readline().strip()
        ended = subprocess.run(
            [*command, address], cwd=folder, capture_output=True, text=True, timeout=100, check=False
        )
        assert ended.returncode == 0, ended.stderr
        assert tokyo.wait(100) == 0
    assert f"`{ended.stdout.strip()}`" in (DOCS / PAGE).read_text(encoding="utf-8")


def test_the_headers_compile_alone_and_say_the_names_of_the_page(tmp_path: Path) -> None:
    for header, compiler in (("xmml_path.h", "cc -std=c99"), ("xmml_path.hpp", "c++ -std=c++17 -Wconversion")):
        source = tmp_path / ("alone.c" if header.endswith(".h") else "alone.cpp")
        source.write_text(f"#include <{header}>\nint main(void) {{ return XMML_PATH_BULK == 0; }}\n")
        strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
        subprocess.run([*compiler.split(), *strict, *config.cflags(), str(source)], check=True)
    text = (config.SDK / "include/xmml_path.h").read_text()
    named = ("send", "receive", "send_receive", "cycle", "barrier", "relay", "scatter", "gather", "post", "wait", "set")
    assert [name for name in named if f"xmml_path_{name}(" not in text] == []
