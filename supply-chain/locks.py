"""Read what is locked: crates in Cargo.lock, Python packages in requirements.lock."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CARGO_LOCK = ROOT / "Cargo.lock"
REQUIREMENTS_LOCK = ROOT / "requirements.lock"

BLOCK = re.compile(r"^([\w.-]+)==([^\s;]+)(?: ; ([^\\\n]+?))? \\\n((?:    .*\n?)*)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
NEEDED_BY = re.compile(r"^    #(?: via|  ) (\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Crate:
    """A crate from a registry, with the SHA-256 of its archive."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Package:
    """A Python package, with the SHA-256 of each of its archives, and the names of those that need it."""

    name: str
    version: str
    marker: str | None
    sha256: tuple[str, ...]
    needed_by: tuple[str, ...]


def crates(text: str) -> list[Crate]:
    """Return the crates of a Cargo.lock that come from elsewhere."""
    locked = tomllib.loads(text)["package"]
    return [Crate(each["name"], each["version"], each["checksum"]) for each in locked if "source" in each]


def packages(text: str) -> list[Package]:
    """Return the packages of a lock file as uv pip compile writes it."""
    return [
        Package(name, version, marker or None, tuple(HASH.findall(rest)), tuple(NEEDED_BY.findall(rest)))
        for name, version, marker, rest in BLOCK.findall(text)
    ]
