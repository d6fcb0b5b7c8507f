"""xmml-config, the pkg-config file and the CMake package, for Fortran."""

from __future__ import annotations

import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from needs import needs
from xmml_native import config, fortran_kit

pytestmark = needs("gfortran")

PROGRAM = """\
program version
    use xmml
    print "(a)", xmml_version()
end program
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "program.f90"
    path.write_text(PROGRAM)
    return path


def printed(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("options", [["--fflags", "--flibs"], ["--fflags", "--flibs", "--static"]], ids=" ".join)
def test_the_options_compile_a_program(options: list[str], source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config.main(options) == 0
    program = source.with_suffix("")
    subprocess.run(["gfortran", "-o", program, source, *capsys.readouterr().out.split()], check=True)
    assert printed(program) == version("xmml")


def test_the_source_can_be_compiled_by_the_user(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert config.main(["--fsources", "--libs"]) == 0
    module, *options = capsys.readouterr().out.split()
    program = source.with_suffix("")
    command = ["gfortran", "-O0", "-o", program, module, source, *options]
    subprocess.run(command, check=True, cwd=source.parent)
    assert printed(program) == version("xmml")


@pytest.mark.parametrize("standard", ["f2008", "f2018"])
def test_the_module_is_standard_fortran(standard: str, tmp_path: Path) -> None:
    strict = [f"-std={standard}", "-O0", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gfortran", *strict, "-c", config.fsources()], check=True, cwd=tmp_path)


@needs("pkg-config")
def test_pkg_config_names_the_source(source: Path) -> None:
    environment = os.environ | {"PKG_CONFIG_PATH": str(config.pkgconfig())}
    found = subprocess.run(
        ["pkg-config", "--variable=fsources", "xmml"], capture_output=True, text=True, check=True, env=environment
    )
    (word,) = shlex.split(found.stdout)
    assert Path(word).samefile(config.fsources())


@needs("cmake")
def test_cmake_compiles_the_module_with_the_project(source: Path) -> None:
    (source.parent / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(program Fortran C)\n"
        "find_package(xmml 0.1 REQUIRED)\n"
        "add_executable(program program.f90)\n"
        "target_link_libraries(program PRIVATE xmml::fortran)\n"
    )
    build = source.parent / "build"
    options = [f"-Dxmml_DIR={config.cmake()}"]
    subprocess.run(["cmake", "-S", source.parent, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build], check=True, stdout=subprocess.DEVNULL)
    assert printed(build / "program") == version("xmml")


def test_without_a_compiler_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FC", "no-such-compiler")
    assert config.main(["--fflags"]) == 1
    said = capsys.readouterr().err
    assert "no-such-compiler cannot be started" in said
    assert "apt-get install gfortran" in said


def test_what_the_compiler_says_is_shown(tmp_path: Path) -> None:
    wrong = tmp_path / "xmml.f90"
    wrong.write_text("module xmml\n    nonsense\nend module\n")
    with pytest.raises(fortran_kit.CompilerError, match="nonsense"):
        fortran_kit.compiled(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["xmml.f90"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A module that is compiled in no time."""
    path = tmp_path / "kit" / "xmml.f90"
    path.parent.mkdir()
    path.write_text("module xmml\nend module\n")
    return path.parent


def test_it_is_compiled_once_for_each_compiler_and_source(small: Path) -> None:
    first = fortran_kit.compiled(small)
    made = (first / "xmml.o").stat().st_mtime_ns
    assert fortran_kit.compiled(small) == first
    assert (first / "xmml.o").stat().st_mtime_ns == made
    (small / "xmml.f90").write_text("module xmml\n    integer :: i\nend module\n")
    assert fortran_kit.compiled(small) != first


def test_several_at_once_make_the_same(small: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(fortran_kit.compiled, [small] * 4))
    assert len(folders) == 1
    assert sorted(path.name for path in small.iterdir()) == [folders.pop().name, "xmml.f90"]


def test_a_kit_that_cannot_be_written_to_is_compiled_into_the_cache(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = fortran_kit.tempfile.TemporaryDirectory

    def refuses(*, dir: Path, prefix: str) -> object:
        if dir == small:
            raise PermissionError(13, "Permission denied", str(dir))
        return real(dir=dir, prefix=prefix)

    monkeypatch.setattr(fortran_kit.tempfile, "TemporaryDirectory", refuses)
    assert fortran_kit.compiled(small).parent == tmp_path / "cache/xmml"
