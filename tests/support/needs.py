"""What tests need of the machine. A test whose need is not met is skipped; its reason is the command that meets it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from wan.programs import ROOT, found
from xmml_native import config

#: The table of commands and Debian packages that `make test` installs.
_TABLE = Path(__file__).resolve().parents[2] / ".ci" / "install-test-packages"
PACKAGES = dict(re.findall(r"^need (\S+) (\S+)$", _TABLE.read_text(), re.MULTILINE))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason=ROOT)


def missing(*commands: str) -> str | None:
    """Return the command that installs what is missing of these commands, as a reason to skip; None if all are there.

    Raises:
        KeyError: `.ci/install-test-packages` does not know a command.
        RuntimeError: something is missing in CI, which installs all of it.
    """
    absent = [command for command in commands if found(command) is None]
    packages = dict.fromkeys(PACKAGES[command] for command in absent)
    reason = f"needs {', '.join(absent)}: apt-get install {' '.join(packages)}" if absent else None
    if reason is not None and "CI" in os.environ:
        raise RuntimeError(reason)
    return reason


def java_missing() -> str | None:
    """Return what to do so that tests of the Java API can run; None if they can."""
    if reason := missing("javac"):
        return reason
    return None if (config.SDK / "java/xmml.jar").exists() else "xMML was built without Java: make build"


def needs(*commands: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test, or all of a module, where one of these commands is missing."""
    reason = missing(*commands)
    return pytest.mark.skipif(reason is not None, reason=str(reason))


needs_java = pytest.mark.skipif(java_missing() is not None, reason=str(java_missing()))
