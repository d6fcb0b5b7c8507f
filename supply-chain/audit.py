"""Check what xMML is made of: licences and sources of its crates, known advisories about crates and Python packages.

usage: audit.py [--snapshot]

Asks RustSec's database (by cargo-deny) and PyPI's (by pip-audit). `--snapshot` asks no database: crates are compared
with advisories.toml, Python packages are not checked.

Exit status:
    0   nothing was found
    1   something was found, or a tool failed
    2   nothing was found, but a database could not be reached
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import advisories
from locks import CARGO_LOCK, REQUIREMENTS_LOCK, ROOT, Package, crates, packages

RUSTSEC = ROOT / "target" / "advisory-db"  # as deny.toml says
TIME_LIMIT_S = 600


class Outcome(Enum):
    """What came of a check."""

    FINE = "ok"
    FAILED = "FAILED"
    UNKNOWN = "NOT CHECKED"


@dataclass(frozen=True)
class Check:
    """A check, what came of it, and by what it was made."""

    subject: str
    outcome: Outcome
    text: str
    details: str = ""


def run(*command: str, told: str = "") -> subprocess.CompletedProcess[str]:
    """Run a tool in the root folder; `told` is its standard input. One that takes too long has failed."""
    try:
        return subprocess.run(command, cwd=ROOT, input=told, capture_output=True, text=True, timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"{command[0]} took more than {TIME_LIMIT_S} s")


def deny(subject: str, text: str, *checks: str) -> Check:
    """Check the crates with cargo-deny."""
    done = run("cargo-deny", "--color", "never", "--locked", "check", "--hide-inclusion-graph", *checks)
    if done.returncode == 0:
        return Check(subject, Outcome.FINE, text)
    return Check(subject, Outcome.FAILED, text, done.stderr)


def terms_of_crates() -> Check:
    """Check licences and sources of the crates, which needs no database."""
    return deny("crates: licences and sources", "deny.toml", "licenses", "sources")


def advisories_about_crates() -> Check:
    """Check the crates against RustSec's database, or against the snapshot where that cannot be reached."""
    if run("cargo-deny", "fetch", "db").returncode:
        compared = snapshot_about_crates()
        if compared.outcome is Outcome.FAILED:
            return compared
        return Check(
            compared.subject, Outcome.UNKNOWN, f"RustSec's database cannot be reached; nothing found in {compared.text}"
        )
    (database,) = RUSTSEC.glob("advisory-db-*")
    day = run("git", "-C", str(database), "show", "--no-patch", "--format=%cs", "HEAD").stdout.strip()
    return deny("crates: advisories", f"RustSec's database of {day}", "advisories")


def snapshot_about_crates() -> Check:
    """Compare the crates with the snapshot, and say of how many it knows nothing."""
    snapshot, locked = advisories.snapshot(), crates(CARGO_LOCK.read_text())
    details = "".join(
        f"{crate.name} {crate.version}: {advisory.id}\n"
        for crate in locked
        for advisory in snapshot.advisories
        if advisory.concerns(crate)
    )
    text = f"advisories.toml, RustSec's of {snapshot.day}"
    unknown = sorted({crate.name for crate in locked} - snapshot.crates)
    if unknown:
        text += f", which says nothing about {', '.join(unknown)}"
    return Check("crates: advisories", Outcome.FAILED if details else Outcome.FINE, text, details)


def advisories_about_packages() -> Check:
    """Check the Python packages against PyPI's advisories, those for every version of Python."""
    subject, found, asked = "Python: advisories", [], 0
    for pinned in one_version_each(packages(REQUIREMENTS_LOCK.read_text())):
        lines = "\n".join(f"{package.name}=={package.version}" for package in pinned)
        options = ("--requirement", "/dev/stdin", "--no-deps", "--disable-pip", "--format", "json")
        done = run("pip-audit", *options, told=lines)
        try:
            answers = json.loads(done.stdout)["dependencies"]
        except ValueError:
            answers = []
        found += [
            f"{each['name']} {each['version']}: {bug['id']}, fixed in {', '.join(bug['fix_versions']) or 'none'}\n"
            for each in answers
            for bug in each.get("vulns", ())
        ]
        asked += len(pinned)
        answered = sum("vulns" in each for each in answers)
        if answered < len(pinned):
            text = f"PyPI's advisories cannot be reached for {len(pinned) - answered} of {len(pinned)} packages"
            return Check(subject, Outcome.FAILED if found else Outcome.UNKNOWN, text, "".join(found))
    today = datetime.now(UTC).date()
    text = f"PyPI's advisories of {today} about {asked} packages"
    return Check(subject, Outcome.FAILED if found else Outcome.FINE, text, "".join(found))


def one_version_each(locked: list[Package]) -> list[list[Package]]:
    """Divide packages into lists in which each name stands once, as pip-audit wants them.

    A lock for several versions of Python has several versions of a package.
    """
    lists: list[dict[str, Package]] = []
    for package in locked:
        for named in lists:
            if package.name not in named:
                named[package.name] = package
                break
        else:
            lists.append({package.name: package})
    return [list(named.values()) for named in lists]


def no_database() -> Check:
    """Say that Python packages are compared with nothing."""
    return Check("Python: advisories", Outcome.UNKNOWN, "there is no snapshot of PyPI's advisories")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--snapshot"]):
        print(__doc__, file=sys.stderr)
        return 2
    checks: list[Callable[[], Check]] = [terms_of_crates]
    checks += (
        [snapshot_about_crates, no_database] if arguments else [advisories_about_crates, advisories_about_packages]
    )
    made = []
    for check in checks:
        done = check()
        print(f"{done.subject:30} {done.outcome.value:12} {done.text}", flush=True)
        print("".join(f"    {line}\n" for line in done.details.splitlines()), end="", flush=True)
        made.append(done.outcome)
    if Outcome.FAILED in made:
        return 1
    if Outcome.UNKNOWN in made and not arguments:
        print("Not everything was checked. make audit ARGS=--snapshot asks no database.", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
