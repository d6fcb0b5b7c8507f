"""Makes xmml.jar: the classes of org.xmml and the native library.

Usage: make_jar.py LIBRARY FOLDER: compiles the sources beside this file and puts xmml.jar into FOLDER, and beside it
the library, which is then loaded without being unpacked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = sorted(HERE.glob("org/xmml/*.java"))
#: What the programs of users must run on at least.
RELEASE = "17"
LIBRARY = "libxmml_java.so"


def missing_tools() -> list[str]:
    """Return the programs of a Java development kit that are not there."""
    return [tool for tool in ("javac", "jar") if shutil.which(tool) is None]


def compile_classes(folder: Path) -> None:
    """Compile the API into ``folder``; a warning is an error."""
    strict = ["-Xlint:all", "-Werror", "-Xdoclint:all/protected", "-encoding", "UTF-8"]
    subprocess.run(["javac", "--release", RELEASE, *strict, "-d", str(folder), *map(str, SOURCES)], check=True)


def make(library: Path, folder: Path) -> None:
    """Put xmml.jar and the library into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        classes = Path(name)
        compile_classes(classes)
        shutil.copy2(library, classes / LIBRARY)
        subprocess.run(["jar", "--create", "--file", str(folder / "xmml.jar"), "-C", str(classes), "."], check=True)
    shutil.copy2(library, folder / LIBRARY)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
