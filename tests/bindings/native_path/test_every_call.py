"""Every call of xmml_path.h and xmml_path.hpp, both ends in one program."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

import pytest
from compiled import behaviours, compiled, run
from xmml_native import config

HERE = Path(__file__).parent
SOURCES = [HERE / "every_call.c", HERE / "every_call.cpp"]


@pytest.mark.parametrize(
    ("source", "behaviour"),
    [pytest.param(source, name, id=f"{source.name}-{name}") for source in SOURCES for name in behaviours(source)],
)
def test_every_call_from_c_and_cpp(source: Path, behaviour: str, tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(secrets.token_hex(32))
    program = compiled(source, "-pthread")
    assert "held" in run(program, behaviour, env={**os.environ, "FOLDER": str(tmp_path)})


def test_no_call_of_the_header_is_left_out() -> None:
    header = (config.SDK / "include/xmml_path.h").read_text()
    declared = set(re.findall(r"^[a-z].*\b\*?(xmml_path_\w+)\(", header, re.MULTILINE))
    assert len(declared) > 25
    called = set(re.findall(r"xmml_path_\w+(?=\()", (HERE / "every_call.c").read_text()))
    assert declared - called == set()
