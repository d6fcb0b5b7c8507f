"""`xmml-config`: what compilers, linkers and build tools need to build a submodel against the installed libxmml."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from xmml_native import fortran_kit

SDK = Path(__file__).resolve().parent / "sdk"
STATIC_DEPENDENCIES = ["-lpthread", "-ldl", "-lm"]

EPILOG = """\
examples:
  cc  -O2 -o heater heater.c   $(xmml-config --cflags --libs)
  c++ -O2 -o heater heater.cpp $(xmml-config --cflags --libs)
  gfortran -O2 -o heater heater.f90 $(xmml-config --fflags --flibs)
  cmake -S . -B build -Dxmml_DIR=$(xmml-config --cmake)
  PKG_CONFIG_PATH=$(xmml-config --pkgconfig) pkg-config --cflags xmml

C needs C99 or newer, C++ needs C++17 or newer, Fortran needs 2008 or newer.
The Fortran module is compiled by gfortran, or by the compiler that the environment variable FC names;
with --mpi by mpifort, or by what FC names."""


class SdkError(Exception):
    """A part of the development kit that was asked for is not installed."""


def cflags(sdk: Path = SDK) -> list[str]:
    """Compiler options for C and C++."""
    return [f"-I{_present(sdk / 'include', sdk)}"]


def libs(sdk: Path = SDK, *, static: bool = False) -> list[str]:
    """Linker options for C and C++; with the shared library the program also remembers where it is."""
    folder = _present(sdk / "lib", sdk)
    if static:
        return [str(folder / "libxmml.a"), *STATIC_DEPENDENCIES]
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lxmml"]


def cmake(sdk: Path = SDK) -> Path:
    """The folder for CMake's xmml_DIR."""
    return _present(sdk / "lib/cmake/xmml", sdk)


def pkgconfig(sdk: Path = SDK) -> Path:
    """The folder for PKG_CONFIG_PATH."""
    return _present(sdk / "lib/pkgconfig", sdk)


def jar(sdk: Path = SDK) -> Path:
    """The class path of the Java API."""
    return _optional(sdk / "java/xmml.jar", "the Java API")


def fflags(sdk: Path = SDK, *, mpi: bool = False) -> list[str]:
    """Compiler options for Fortran: where the module is, compiled for $FC or gfortran."""
    return [f"-I{_fortran_module(sdk, mpi)}"]


def flibs(sdk: Path = SDK, *, static: bool = False, mpi: bool = False) -> list[str]:
    """Linker options for Fortran."""
    return [*map(str, fortran_kit.objects(_fortran_module(sdk, mpi))), *libs(sdk, static=static)]


def fsources(sdk: Path = SDK) -> Path:
    """The source of the Fortran module, for those who compile it themselves."""
    return _present(sdk / "fortran/xmml.f90", sdk)


def kit() -> Path:
    """The development kit, by a path that a shell takes for one word when `$(xmml-config ...)` stands unquoted.

    A shell splits what a command prints at white space, whatever quotes are in it. If the path of the installation has
    such characters, the kit gets a symbolic link in `$XDG_DATA_HOME/xmml` (`~/.local/share/xmml`). If that path has
    them too, or cannot be written, the kit's own path is returned.
    """
    if not _is_split(SDK):
        return SDK
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    link = data / "xmml" / f"kit-{hashlib.sha256(os.fsencode(SDK)).hexdigest()[:16]}"
    if _is_split(link):
        return SDK
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink() or link.readlink() != SDK:
            made = link.with_name(f"{link.name}-{os.getpid()}")
            made.symlink_to(SDK)
            made.replace(link)  # whole or not at all, also beside others who do the same
    except OSError:
        return SDK
    return link


def _is_split(path: Path) -> bool:
    return any(character.isspace() for character in str(path))


def _fortran_module(sdk: Path, mpi: bool) -> Path:
    try:
        return fortran_kit.compiled(fsources(sdk).parent, mpi=mpi)
    except fortran_kit.CompilerError as problem:
        raise SdkError(str(problem)) from problem


def _present(path: Path, sdk: Path) -> Path:
    if not path.exists():
        raise SdkError(
            f"the C and C++ development kit is not where it should be ({path} is missing under {sdk.parent}); "
            "install xmml again: make run in the source folder, or pip install --force-reinstall xmml"
        )
    return path


def _optional(path: Path, what: str) -> Path:
    if not path.exists():
        raise SdkError(
            f"{what} is not part of this installation of xmml {_version()}; for it a Java development kit must "
            "be there (apt-get install openjdk-17-jdk-headless) when xmml is built"
        )
    return path


def _version() -> str:
    from importlib.metadata import version  # slow to import, and seldom needed

    return version("xmml")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `xmml-config`; prints what is asked for on one line, in the order compilers want it."""
    parser = argparse.ArgumentParser(
        prog="xmml-config",
        description="Print the options that compile and link a submodel against the installed libxmml.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cflags", action="store_true", help="compiler options for C and C++")
    parser.add_argument("--fflags", action="store_true", help="compiler options for Fortran")
    parser.add_argument("--libs", action="store_true", help="linker options for C and C++")
    parser.add_argument("--flibs", action="store_true", help="linker options for Fortran")
    parser.add_argument("--fsources", action="store_true", help="the source of the Fortran module")
    parser.add_argument("--mpi", action="store_true", help="with --fflags, --flibs: for programs that use xmml_mpi")
    parser.add_argument("--static", action="store_true", help="with --libs, --flibs: link libxmml.a, not libxmml.so")
    parser.add_argument("--cmake", action="store_true", help="folder of xmml-config.cmake, for -Dxmml_DIR=")
    parser.add_argument("--pkgconfig", action="store_true", help="folder of xmml.pc, for PKG_CONFIG_PATH")
    parser.add_argument("--jar", action="store_true", help="class path of the Java API")
    parser.add_argument("--prefix", action="store_true", help="folder that holds include and lib")
    parser.add_argument("--version", action="store_true", help="version of xmml")
    asked = parser.parse_args(arguments)

    words: list[str] = []
    sdk = kit()
    try:
        if asked.fsources:
            words.append(str(fsources(sdk)))
        if asked.cflags:
            words += cflags(sdk)
        if asked.fflags:
            words += fflags(sdk, mpi=asked.mpi)
        if asked.libs:
            words += libs(sdk, static=asked.static)
        if asked.flibs:
            words += flibs(sdk, static=asked.static, mpi=asked.mpi)
        if asked.cmake:
            words.append(str(cmake(sdk)))
        if asked.pkgconfig:
            words.append(str(pkgconfig(sdk)))
        if asked.jar:
            words.append(str(jar(sdk)))
        if asked.prefix:
            words.append(str(_present(sdk, sdk)))
        if asked.version:
            words.append(_version())
    except SdkError as problem:
        print(f"xmml-config: {problem}", file=sys.stderr)
        return 1
    if not words:
        parser.print_usage(sys.stderr)
        print("xmml-config: say what you want to know, for example --cflags --libs", file=sys.stderr)
        return 2
    print(" ".join(quote(word) for word in words))
    return 0


if __name__ == "__main__":
    sys.exit(main())
