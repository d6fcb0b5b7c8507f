"""Compiles the C and C++ programs of the tests with the options that xmml-config prints."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from waiting import LIMIT_S
from xmml_native import config

#: What the compilers find wrong while a program runs.
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]
SUPPORT = Path(__file__).parent
PROGRAMS = TemporaryDirectory(prefix="xmml-test-")


def behaviours(source: Path) -> list[str]:
    """The names in the table of behaviours of a test program."""
    names = re.findall(r'^ *\{"(\w+)", \1\}', source.read_text(), re.MULTILINE)
    assert names, f"{source} has no behaviours"
    return names


@cache
def compiled(source: Path, *options: str, static: bool = False) -> Path:
    """Compile `source` strictly, once per session; in case of trouble the test fails with the words of the compiler."""
    program = Path(mkdtemp(dir=PROGRAMS.name)) / source.stem
    command = [*_compiler(source), *STRICT, f"-I{SUPPORT}", *options, "-o", str(program), str(source)]
    _must_succeed([*command, *config.cflags(), *config.libs(static=static)])
    return program


@cache
def under_thread_sanitizer(source: Path, library: str, runtime: str) -> Path:
    """Compile `source` for the thread sanitizer, and link it with a libxmml that is built for the same, and with the
    runtime of the sanitizer that the latter needs, which is not that of this compiler."""
    compiled_only = compiled(source, "-fsanitize=thread", "-pthread", "-c")
    program = compiled_only.with_suffix(".watched")
    sanitizer = ["-Wl,--whole-archive", runtime, "-Wl,--no-whole-archive", "-Wl,--export-dynamic"]
    system = ["-pthread", "-ldl", "-lm", "-lrt"]
    _must_succeed([_compiler(source)[0], "-o", str(program), str(compiled_only), library, *sanitizer, *system])
    return program


def _compiler(source: Path) -> list[str]:
    return ["c++", "-std=c++17"] if source.suffix == ".cpp" else ["cc", "-std=c99"]


def _must_succeed(command: list[str]) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def run(program: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run a test program; returns what it printed."""
    finished = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, env=env, timeout=LIMIT_S
    )
    assert finished.returncode == 0, f"exit status {finished.returncode}\n{finished.stdout}{finished.stderr}"
    return finished.stdout
