"""An image, and what starts programs in it, for tests: Apptainer where it is installed, else what stands in for it."""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import stand_in_apptainer
from scripts import write_python

#: Apptainer itself; None: the tests do with the stand-in.
APPTAINER = shutil.which("apptainer")

#: This machine's system, and the Python that has xMML: the image of the stand-in has its own copy of what is installed.
CONTENTS = ("/usr", "/bin", "/lib", "/lib64", "/etc")

#: What Python needs in an image, but for the modules of others.
_UNUSED = ("__pycache__", "config-*", "idlelib", "site-packages", "dist-packages", "test", "tkinter")
#: What a root folder has besides.
_EMPTY = ("dev", "etc", "home", "proc", "root", "sys", "tmp", "usr/local/bin", "var/tmp")
#: Prints the files and folders of the modules of others that a program with xMML loads.
_MODULES = """
import os, sys, sysconfig
import xmml
xmml.Instance
own = sysconfig.get_path("stdlib")
for name, module in sorted(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if "." not in name and file and (not file.startswith(own) or "-packages" in file):
        print(os.path.dirname(file) if os.path.basename(file) == "__init__.py" else file)
"""


def write_container_program(folder: Path, name: str = "apptainer") -> Path:
    """Write what starts programs in images into a folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    if APPTAINER is not None:
        program.symlink_to(APPTAINER)
        return program
    (folder / "root").mkdir()
    return write_python(program, Path(stand_in_apptainer.__file__).read_text())


def write_image(path: Path) -> Path:
    """Write an image that has a system and a Python with xMML."""
    if APPTAINER is not None:
        shutil.copyfile(_built_image(), path)
        return path
    source = Path(__file__).resolve().parents[2]
    contents = [each for each in (*CONTENTS, sys.base_prefix, str(source)) if os.path.isdir(each)]
    contents = [each for each in contents if not any(each.startswith(f"{other}/") for other in contents)]
    path.write_text(json.dumps({"contents": contents, "path": f"{Path(sys.executable).parent}:/usr/bin:/bin"}))
    return path


@cache
def _built_image() -> Path:
    """Return the image that Apptainer makes of a small root folder: it is the same for all tests of this process."""
    assert APPTAINER is not None
    folder = Path(tempfile.mkdtemp(prefix="xmml-image-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _write_root(folder / "root")
    # Compression would take longer than all tests.
    build = [APPTAINER, "build", "--mksquashfs-args", "-noD -noF -noI -noX", folder / "image.sif", folder / "root"]
    subprocess.run(build, check=True, capture_output=True)
    shutil.rmtree(folder / "root")
    return folder / "image.sif"


def _write_root(root: Path) -> None:
    """Write a root folder with a shell, and with a Python that has xMML."""
    for name in _EMPTY:
        (root / name).mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    python = root / "opt/python"
    standard = Path(sysconfig.get_path("stdlib"))
    library = python / "lib" / standard.name
    shutil.copytree(standard, library, ignore=shutil.ignore_patterns(*_UNUSED))
    program = python / "bin/python3"
    program.parent.mkdir()
    shutil.copy(Path(sys.executable).resolve(), program)
    (root / "usr/local/bin/python3").symlink_to("/opt/python/bin/python3")
    told = subprocess.run([sys.executable, "-c", _MODULES], check=True, capture_output=True, text=True)
    packages = library / "site-packages"
    packages.mkdir()
    for each in map(Path, told.stdout.splitlines()):
        for one in (each, each.with_name(f"{each.name}.libs")):
            if one.is_dir():
                shutil.copytree(one, packages / one.name, ignore=shutil.ignore_patterns("sdk", "tests"))
            elif one.is_file():
                shutil.copy(one, packages / one.name)
    shell = root / "bin/sh"
    shell.parent.mkdir()
    shutil.copy(Path("/bin/sh").resolve(), shell)
    _copy_libraries(root, [program, shell, *library.rglob("*.so*")])


def _copy_libraries(root: Path, programs: Iterable[Path]) -> None:
    """Copy what these programs and libraries are linked with: to where the system has it, or to /usr/lib, since home
    folders are often hidden by those outside."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for library in dict.fromkeys(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listed, re.MULTILINE)):
        is_systems = library.startswith(("/lib", "/usr/"))
        target = root / (library.lstrip("/") if is_systems else f"usr/lib/{Path(library).name}")
        if not library.startswith(str(root)) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
