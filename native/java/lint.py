"""Compiles the Java API with every warning of javac as an error; without javac it says so."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import make_jar

if __name__ == "__main__":
    if missing := make_jar.missing_tools():
        print(f"Java is not linted: {' and '.join(missing)} not found (apt-get install openjdk-17-jdk-headless)")
        sys.exit(0)
    with tempfile.TemporaryDirectory() as folder:
        make_jar.compile_classes(Path(folder))
