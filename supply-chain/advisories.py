"""Find the locked crates that an advisory in advisories.toml is about."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from locks import Crate

SNAPSHOT = Path(__file__).with_name("advisories.toml")


@dataclass(frozen=True)
class Advisory:
    """What is known about a crate: ranges of affected versions, without the second version of the range, if any."""

    id: str
    crate: str
    affected: tuple[tuple[str, ...], ...]

    def concerns(self, crate: Crate) -> bool:
        """Whether this advisory is about this version of the crate."""
        version = order(crate.version)
        return crate.name == self.crate and any(
            order(first) <= version and all(version < order(end) for end in ends) for first, *ends in self.affected
        )


@dataclass(frozen=True)
class Snapshot:
    """The advisories about some crates, as they were on a day."""

    day: date
    crates: frozenset[str]
    advisories: tuple[Advisory, ...]


def order(version: str) -> tuple[int, int, int, bool, list[tuple[bool, int, str]]]:
    """Return what orders versions as Semantic Versioning does: a pre-release precedes its release."""
    release, _, before = version.partition("+")[0].partition("-")
    major, minor, patch = (int(number) for number in release.split("."))
    parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.findall(r"[^.]+", before)]
    return major, minor, patch, not before, parts


def snapshot() -> Snapshot:
    """Return the snapshot in this folder."""
    read = tomllib.loads(SNAPSHOT.read_text())
    advisories = (
        Advisory(each["id"], each["crate"], tuple(map(tuple, each["affected"]))) for each in read["advisories"]
    )
    return Snapshot(read["day"], frozenset(read["crates"]), tuple(advisories))
