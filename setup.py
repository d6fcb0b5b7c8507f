"""The build steps that pyproject.toml cannot express: the development kit inside xmml_native/sdk, and the program mto.

The kit holds libxmml.so.0 and libxmml.a (the Rust crate native/c), the headers, the source of the Fortran module, what
pkg-config and CMake need to find them, and, if a Java development kit is there, xmml.jar (the Rust crate native/java).

The program mto is copied to sites, so it must need no library there: it is linked statically. cargo makes it, because
setuptools-rust passes options of the compiler on for libraries alone.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command, setup
from setuptools.command.build import build

ROOT = Path(__file__).resolve().parent
INCLUDE = [ROOT / "native/c/include", ROOT / "native/cpp/include"]
FORTRAN = ROOT / "native/fortran"
JAVA = ROOT / "native/java"
TEMPLATES = {
    "lib/pkgconfig/xmml.pc": ROOT / "native/c/xmml.pc.in",
    "lib/cmake/xmml/xmml-config.cmake": ROOT / "native/cpp/xmml-config.cmake",
    "lib/cmake/xmml/xmml-config-version.cmake": ROOT / "native/cpp/xmml-config-version.cmake.in",
}


class BuildCompiled(Command):
    """A step that compiles something into the package xmml_native."""

    user_options: ClassVar[list[tuple[str, str | None, str]]] = []
    build_lib: str | None
    editable_mode = False

    def initialize_options(self) -> None:
        self.build_lib = None

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    @property
    def package(self) -> Path:
        """The folder of the package: that of the sources in an editable install, else in the wheel."""
        if self.editable_mode or self.build_lib is None:
            return ROOT / "native/python/xmml_native"
        return Path(self.build_lib) / "xmml_native"

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class BuildSdk(BuildCompiled):
    """Build libxmml with cargo and lay out xmml_native/sdk."""

    description = "build libxmml and lay out the C and C++ development kit"

    @property
    def sdk(self) -> Path:
        """The folder of the kit."""
        return self.package / "sdk"

    def run(self) -> None:
        version = self.distribution.get_version()
        libraries = build_library("xmml-c")
        sdk = self.sdk
        shutil.rmtree(sdk, ignore_errors=True)
        for subfolder in ("lib/pkgconfig", "lib/cmake/xmml"):
            (sdk / subfolder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(libraries["so"], sdk / "lib/libxmml.so.0")
        shutil.copy2(libraries["a"], sdk / "lib/libxmml.a")
        # A wheel holds no symbolic links, so the name that the linker looks for is a linker script.
        (sdk / "lib/libxmml.so").write_text("/* GNU ld script */\nINPUT(libxmml.so.0)\n")
        for folder in INCLUDE:
            shutil.copytree(folder, sdk / "include", dirs_exist_ok=True)
        for target, template in TEMPLATES.items():
            (sdk / target).write_text(template.read_text().replace("@VERSION@", version))
        self.lay_out_fortran(sdk)
        self.lay_out_java(sdk)

    def lay_out_fortran(self, sdk: Path) -> None:
        """Put the source of the Fortran module there; in place, compile it already if there is a compiler."""
        command = [sys.executable, str(FORTRAN / "generate.py")]
        generated = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        (sdk / "fortran").mkdir()
        (sdk / "fortran/xmml.f90").write_text(generated.stdout)
        for source in ("xmml_mpi.f90", "xmml_mpi.c"):
            shutil.copy2(FORTRAN / source, sdk / "fortran")
        if self.editable_mode and shutil.which(os.environ.get("FC", "gfortran")):
            # By its path: the package itself needs what is being built.
            kit = runpy.run_path(str(ROOT / "native/python/xmml_native/fortran_kit.py"))
            kit["compiled"](sdk / "fortran")

    def lay_out_java(self, sdk: Path) -> None:
        """Put the jar there; without a Java development kit there is none."""
        kit = runpy.run_path(str(JAVA / "make_jar.py"))
        if missing := kit["missing_tools"]():
            print(
                f"The Java API is left out: {' and '.join(missing)} not found. For it install a Java development kit, "
                "17 or newer (apt-get install openjdk-17-jdk-headless), and build again."
            )
            return
        kit["make"](build_library("xmml-java")["so"], sdk / "java")

    def get_source_files(self) -> list[str]:
        headers = [header for folder in INCLUDE for header in folder.rglob("*.h*")]
        sources = [*headers, *TEMPLATES.values(), *FORTRAN.iterdir(), *JAVA.rglob("*.*")]
        return [os.path.relpath(source, ROOT) for source in sources]

    def get_outputs(self) -> list[str]:
        return [str(path) for path in self.sdk.rglob("*") if path.is_file()]


class BuildMto(BuildCompiled):
    """Build the program mto, which needs no shared library, into xmml_native/bin."""

    description = "build the program mto"

    @property
    def program(self) -> Path:
        """The path of the program."""
        return self.package / "bin/mto"

    def run(self) -> None:
        options = ["-C", "target-feature=+crt-static", "-C", "strip=symbols"]
        built = cargo("rustc", "--package", "mto", "--bin", "mto", options=options)
        program = self.program
        program.parent.mkdir(parents=True, exist_ok=True)
        # A program that runs cannot be written to, but another can get its name.
        new = program.with_suffix(".new")
        shutil.copy2(next(each["executable"] for each in built if each["executable"]), new)
        new.replace(program)

    def get_source_files(self) -> list[str]:
        crates = (ROOT / "mto", ROOT / "native/site")
        return [os.path.relpath(source, ROOT) for crate in crates for source in crate.rglob("*.*")]

    def get_outputs(self) -> list[str]:
        return [str(self.program)]


def build_library(package: str) -> dict[str, Path]:
    """Compile a crate with the release profile; return the paths of its shared ("so") and static ("a") library."""
    built = cargo("build", "--package", package)
    name = package.replace("-", "_").removesuffix("_c")
    files = [Path(file) for artifact in built if artifact["target"]["name"] == name for file in artifact["filenames"]]
    return {file.suffix.lstrip("."): file for file in files}


def cargo(*words: str, options: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Compile with the release profile, and these options of the compiler; return what was made."""
    command = [os.environ.get("CARGO", "cargo"), *words, "--release", "--locked"]
    command += ["--message-format", "json-render-diagnostics"]
    if options:
        command += ["--", *options]
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{"))
    return [message for message in messages if message.get("reason") == "compiler-artifact"]


build.sub_commands += [("build_sdk", None), ("build_mto", None)]
setup(cmdclass={"build_sdk": BuildSdk, "build_mto": BuildMto})
