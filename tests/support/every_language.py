"""The languages that xMML has an API for, and programs in them as implementations of a model."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import compiled
import pytest
from needs import java_missing, missing
from xmml_native import config

#: Every language, and why it cannot take part here.
MISSING = {
    "c": None,
    "cpp": None,
    "python": None,
    "fortran": missing("gfortran"),
    "java": java_missing(),
}
LANGUAGES = [language for language, reason in MISSING.items() if reason is None]


def parameters(*languages: str) -> list[object]:
    """Languages as parameters: those that cannot take part show as skipped."""
    reasons = {language: MISSING[language] for language in languages}
    skipped = {
        language: [pytest.mark.skip(reason=reason)] for language, reason in reasons.items() if reason is not None
    }
    return [pytest.param(language, marks=skipped.get(language, [])) for language in languages]


EACH_LANGUAGE = parameters(*MISSING)


@cache
def _java_classes(source: Path) -> Path:
    folder = Path(mkdtemp(dir=compiled.PROGRAMS.name))
    command = ["javac", "-Xlint:all", "-Werror", "-cp", str(config.jar()), "-d", str(folder), str(source)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return folder


def java_program(source: Path, options: str = "") -> str:
    """Compile a program in Java, once per session; returns the attributes of an implementation that start it."""
    arguments = f"{options} -cp '{config.jar()}:{_java_classes(source)}' {source.stem}".strip()
    return f'path="{shutil.which("java")}" run:args="{arguments}"'
