"""What xMML is made of is locked, comes from where it may, and is free of what is known about it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import advisories
import locks
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = [line.split("#")[0].strip() for line in (ROOT / "supply-chain/tools.in").read_text().splitlines()]
# What developers alone install.
DEVELOPERS = {"test", "lint"}
USERS = [
    *PYPROJECT["project"]["dependencies"],
    *PYPROJECT["build-system"]["requires"],
    *(
        requirement
        for extra, requirements in PYPROJECT["project"]["optional-dependencies"].items()
        if extra not in DEVELOPERS
        for requirement in requirements
    ),
]
LOCKS = {"requirements.lock": USERS, "supply-chain/tools.lock": list(filter(None, TOOLS))}


@pytest.mark.parametrize(("lock", "asked"), [(lock, each) for lock, all_of in LOCKS.items() for each in all_of])
def test_a_dependency_is_locked_at_a_version_that_fits(lock: str, asked: str) -> None:
    requirement = Requirement(asked)
    name = canonicalize_name(requirement.name)
    versions = [each.version for each in locks.packages((ROOT / lock).read_text()) if each.name == name]
    fitting = [version for version in versions if version in requirement.specifier]
    assert versions, f"{asked} is not locked: make lock"
    assert fitting == versions, f"{asked} is locked at {versions}: make lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_line_of_a_lock_file_is_a_package_with_hashes(lock: str) -> None:
    text = (ROOT / lock).read_text()
    packages = locks.packages(text)
    assert [each.name for each in packages if not each.sha256] == []
    read = len(packages) + sum(len(each.sha256) for each in packages)
    lines = [line for line in text.splitlines() if not re.match(r" *#", line)]
    assert len(lines) == read, "a line is neither a package nor a hash of one"


def test_every_crate_has_a_hash_and_comes_from_one_registry() -> None:
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    foreign = [each for each in packages if "source" in each]
    assert len({each["source"] for each in foreign}) == 1
    assert all(re.fullmatch("[0-9a-f]{64}", each["checksum"]) for each in foreign)


def test_no_locked_crate_is_known_to_be_affected_by_an_advisory() -> None:
    known = advisories.snapshot().advisories
    crates = locks.crates((ROOT / "Cargo.lock").read_text())
    found = [f"{crate.name} {crate.version}: {each.id}" for crate in crates for each in known if each.concerns(crate)]
    assert found == []


def test_the_security_policy_names_the_maintainers_and_what_is_there() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    assert PYPROJECT["project"]["authors"][0]["email"] in page
    for needed in ("docs/threat-model.md", "make audit", "make sbom", "requirements.lock"):
        assert needed in page


def test_the_readme_leads_to_the_security_policy() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("target", ["audit", "lock", "sbom"])
def test_make_help_lists_what_looks_after_the_supply_chain(target: str) -> None:
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(rf"^ *make {target} ", told, re.MULTILINE)
