"""The programs of docs/wide-area.md, as printed."""

from __future__ import annotations

import re
import secrets
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compiled import compiled
from needs import needs
from path_pairs import kept_address, pair
from printed import DOCS, blocks, write
from sshd import running_sshd
from waiting import LIMIT_S
from xmml_native import config

import xmml

PAGE = "wide-area.md"
ALONE = ("urgent.py", "parts.py", "events.py", "ending.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shown = write(PAGE, tmp_path)
    assert set(shown) == {"tokyo.py", "amsterdam.py", "amsterdam.c", "amsterdam.cpp", "osaka.py", *ALONE}
    (tmp_path / "secret").touch(mode=0o600)
    (tmp_path / "secret").write_text(secrets.token_hex(32))
    return tmp_path


@contextmanager
def listening(folder: Path, program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that says at which address it listens, and the address."""
    command = [sys.executable, program, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()


def printed(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.mark.parametrize("program", ["amsterdam.py", "amsterdam.c", "amsterdam.cpp"])
def test_a_program_prints_what_the_page_says(folder: Path, program: str) -> None:
    source = folder / program
    command = [sys.executable, str(source)] if source.suffix == ".py" else [str(compiled(source))]
    with listening(folder, "tokyo.py", "127.0.0.1:0") as (_, address):
        answer = printed(folder, *command, address)
    assert f"`{answer}`" in (DOCS / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("everywhere", ["0.0.0.0:0", "[::]:0"])
def test_who_listens_at_every_address_is_reached_at_one(folder: Path, everywhere: str) -> None:
    with listening(folder, "tokyo.py", everywhere) as (_, address):
        port = address.rpartition(":")[2]
        assert printed(folder, sys.executable, "amsterdam.py", f"127.0.0.1:{port}") == "499999500000.0"


@needs("sshd")
def test_a_program_is_reached_through_ssh(folder: Path) -> None:
    with (
        kept_address() as here,
        running_sshd(folder / "sshd") as server,
        listening(folder, "tokyo.py", "127.0.0.1:0") as (_, address),
    ):
        forward = ["ssh", "-F", str(server.config), "-N", "-L", f"{here}:{address}", server.name]
        with subprocess.Popen(forward, stdin=subprocess.DEVNULL) as ssh:
            try:
                assert printed(folder, sys.executable, "amsterdam.py", here) == "499999500000.0"
            finally:
                ssh.kill()


def test_a_program_between_the_two_passes_on(folder: Path) -> None:
    with (
        listening(folder, "tokyo.py", "127.0.0.1:0") as (_, last),
        listening(folder, "osaka.py", "127.0.0.1:0", last) as (osaka, address),
    ):
        assert printed(folder, sys.executable, "amsterdam.py", address) == "499999500000.0"
        assert osaka.stdout is not None
        assert f"# {osaka.stdout.read().strip()}\n" in (folder / "osaka.py").read_text()


@pytest.mark.parametrize("program", ALONE)
def test_a_program_that_stands_alone_prints_what_its_comments_say(folder: Path, program: str) -> None:
    comments = re.findall(r"^ *print\(.*\)  # (.*)$", (folder / program).read_text(), re.MULTILINE)
    expected = [line for comment in comments for line in comment.split(", ")]
    assert expected
    assert printed(folder, sys.executable, program).splitlines() == expected


def test_credentials_are_made_in_the_languages_and_from_a_shell(folder: Path) -> None:
    (c,) = [text for text in blocks(PAGE, "c") if "main" not in text]
    (cpp,) = [text for text in blocks(PAGE, "cpp") if "main" not in text]
    made = folder / "amsterdam.pem"
    around = {
        "credentials.c": f"#include <stdio.h>\n#include <xmml_path.h>\nint main(void) {{\n{c}"
        'printf("%s\\n", fingerprint);\nreturn me.trusted_count != 1;\n}\n',
        "credentials.cpp": f"#include <cstdio>\n#include <xmml_path.hpp>\nint main() {{\n{cpp}"
        "std::puts(fingerprint.c_str());\nreturn me.trusted.size() != 1;\n}\n",
    }
    for name, text in around.items():
        (folder / name).write_text(text)
        assert len(printed(folder, str(compiled(folder / name)))) == 64
        assert stat.S_IMODE(made.stat().st_mode) == 0o600
        made.unlink()
    (shell,) = [line for text in blocks(PAGE, "sh") for line in text.splitlines() if "make_credentials" in line]
    python = shlex.split(shell)
    assert len(printed(folder, sys.executable, *python[1:])) == 64
    assert made.exists()


def test_what_a_path_says_of_itself_is_on_the_page() -> None:
    here, _there = pair()
    text = (DOCS / PAGE).read_text(encoding="utf-8").split("## How a path is doing")[1].split("\n## ")[0]
    assert {key for key in here.stats() if f"`{key}`" not in text} == set()
    settings = (DOCS / PAGE).read_text(encoding="utf-8").split("## Settings")[1].split("\n#")[0]
    with pytest.raises(xmml.Error, match="it has ") as error:
        here.set(nonsense=1)
    known = str(error.value).partition("it has ")[2].split(", ")
    assert {key for key in known if f"| `{key}` |" not in settings} == set()


def test_the_headers_compile_alone_and_say_the_names_of_the_page(tmp_path: Path) -> None:
    for header, compiler in (("xmml_path.h", "cc -std=c99"), ("xmml_path.hpp", "c++ -std=c++17 -Wconversion")):
        source = tmp_path / ("alone.c" if header.endswith(".h") else "alone.cpp")
        source.write_text(f"#include <{header}>\nint main(void) {{ return XMML_PATH_BULK == 0; }}\n")
        strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
        subprocess.run([*compiler.split(), *strict, *config.cflags(), str(source)], check=True)
    text = (config.SDK / "include/xmml_path.h").read_text()
    named = ("send", "receive", "send_receive", "cycle", "barrier", "relay", "scatter", "gather", "post", "wait", "set")
    assert [name for name in named if f"xmml_path_{name}(" not in text] == []
