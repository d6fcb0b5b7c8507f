"""xmml-config, the pkg-config file and the CMake package: three ways to the same library."""

from __future__ import annotations

import os
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
from needs import needs
from xmml_native import config

PROGRAM = """\
#include <stdio.h>
#include <xmml.h>
int main(void) { puts(xmml_version()); return 0; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "program.c"
    path.write_text(PROGRAM)
    return path


def printed(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("more", [[], ["--static"]], ids=["shared", "static"])
def test_the_options_compile_and_the_program_finds_the_library(
    more: list[str], source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert config.main(["--cflags", "--libs", *more]) == 0
    options = capsys.readouterr().out.split()
    program = source.with_suffix("")
    subprocess.run(["cc", "-o", program, source, *options], check=True)
    assert printed(program) == version("xmml")


def test_a_kit_whose_path_a_shell_would_split_is_named_by_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "with a space"
    there.symlink_to(config.SDK)
    monkeypatch.setattr(config, "SDK", there)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for _ in range(2):
        assert config.main(["--prefix"]) == 0
        (word,) = capsys.readouterr().out.split()
        assert Path(word).readlink() == there


def test_where_a_link_would_be_split_as_well_words_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "with a space"
    there.symlink_to(config.SDK)
    monkeypatch.setattr(config, "SDK", there)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "no data"))
    assert config.main(["--prefix"]) == 0
    assert shlex.split(capsys.readouterr().out) == [str(there)]


@needs("pkg-config")
def test_pkg_config_knows_the_same(source: Path) -> None:
    environment = os.environ | {"PKG_CONFIG_PATH": str(config.pkgconfig())}
    output = subprocess.run(
        ["pkg-config", "--cflags", "--libs", f"xmml = {version('xmml')}"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout
    program = source.with_suffix("")
    subprocess.run(["cc", "-o", program, source, *shlex.split(output)], check=True)
    assert printed(program) == version("xmml")


@needs("cmake")
@pytest.mark.parametrize("target", ["xmml::xmml", "xmml::static"])
def test_cmake_finds_the_package(source: Path, target: str) -> None:
    (source.parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(program C)\n"
        "find_package(xmml 0.1 REQUIRED)\n"
        "add_executable(program program.c)\n"
        f"target_link_libraries(program PRIVATE {target})\n"
    )
    build = source.parent / "build"
    options = [f"-Dxmml_DIR={config.cmake()}"]
    subprocess.run(["cmake", "-S", source.parent, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build], check=True, stdout=subprocess.DEVNULL)
    assert printed(build / "program") == version("xmml")


@needs("cmake")
def test_cmake_refuses_another_series(source: Path) -> None:
    (source.parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(program C)\nfind_package(xmml 99.0 REQUIRED)\n"
    )
    finished = subprocess.run(
        ["cmake", "-S", source.parent, "-B", source.parent / "build", f"-Dxmml_DIR={config.cmake()}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode != 0
    assert "99.0" in finished.stderr


def test_a_jar_that_was_not_built_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.SdkError, match="the Java API is not part of this installation"):
        config.jar(tmp_path)


def test_asking_for_nothing_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert config.main([]) == 2
    assert "--cflags --libs" in capsys.readouterr().err


def test_a_missing_kit_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(config.SdkError, match="install xmml again"):
        config.cflags(tmp_path / "sdk")
