"""An image for the stand-in for Apptainer, and the stand-in itself, for tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import stand_in_apptainer
from scripts import write_python

#: This machine's system, and the Python that has xMML: the image has its own copy of what is installed.
CONTENTS = ("/usr", "/bin", "/lib", "/lib64", "/etc")


def write_container_program(folder: Path, name: str = "apptainer") -> Path:
    """Write the stand-in into a folder, and return its path."""
    (folder / "root").mkdir(parents=True, exist_ok=True)
    return write_python(folder / name, Path(stand_in_apptainer.__file__).read_text())


def write_image(path: Path) -> Path:
    """Write an image that holds the system of this machine and the Python that has xMML."""
    source = Path(__file__).resolve().parents[2]
    contents = [each for each in (*CONTENTS, sys.base_prefix, str(source)) if os.path.isdir(each)]
    contents = [each for each in contents if not any(each.startswith(f"{other}/") for other in contents)]
    path.write_text(json.dumps({"contents": contents, "path": f"{Path(sys.executable).parent}:/usr/bin:/bin"}))
    return path
