"""Write what a release of xMML is made of: a bill of materials in CycloneDX, of Cargo.lock and requirements.lock.

usage: sbom.py FOLDER

Crates: what the programs and libraries of a release are built from, for Linux. Python packages: what xMML and its
extras need. The scope says what for: required, optional (an extra), excluded (needed only to build).
SOURCE_DATE_EPOCH sets its time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from locks import CARGO_LOCK, REQUIREMENTS_LOCK, ROOT, Crate, Package, crates, packages

# The crates that a release installs: the extension module of Python, the libraries of C and Java, the program mto.
INSTALLED = ("xmml-python", "xmml-c", "xmml-java", "mto")
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")

# How the lock file calls what pyproject.toml asks for.
PROJECT = "xmml (pyproject.toml)"

Json = dict[str, Any]


def metadata(platform: str) -> Json:
    """Return what cargo knows about the crates for a platform."""
    command = ("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", platform)
    known: Json = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return known


def reachable(starts: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    """Return the nodes to which edges lead from any of `starts`, these among them."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges.get(node, ())
    return found


def of_crates(known: Json, locked: Iterable[Crate]) -> tuple[list[Json], dict[str, set[str]]]:
    """Return the components that are crates, and which of them each needs.

    Those that are no part of a program, but of the compiler while it builds one, are excluded.
    """
    hashes = {(crate.name, crate.version): crate.sha256 for crate in locked}
    described = {each["id"]: each for each in known["packages"]}
    macros = {name for name, each in described.items() if any("proc-macro" in it["kind"] for it in each["targets"])}
    linked: dict[str, set[str]] = {}
    needed: dict[str, set[str]] = {}
    for node in known["resolve"]["nodes"]:
        for dependency in node["deps"]:
            kinds = {each["kind"] for each in dependency["dep_kinds"]}
            if kinds & {None, "build"}:
                needed.setdefault(node["id"], set()).add(dependency["pkg"])
            if None in kinds and dependency["pkg"] not in macros:
                linked.setdefault(node["id"], set()).add(dependency["pkg"])
    starts = [name for name, each in described.items() if each["name"] in INSTALLED]
    within = reachable(starts, linked)
    used = reachable(starts, needed)
    refs = {name: f"pkg:cargo/{described[name]['name']}@{described[name]['version']}" for name in used}
    components = []
    for name in used:
        crate = described[name]
        component = {
            "type": "library",
            "bom-ref": refs[name],
            "name": crate["name"],
            "version": crate["version"],
            "scope": "required" if name in within else "excluded",
        }
        if crate["license"]:
            # Crates from before SPDX expressions write a stroke for OR.
            component["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}]
        if crate["source"]:
            component["purl"] = refs[name]
            component["hashes"] = [{"alg": "SHA-256", "content": hashes[crate["name"], crate["version"]]}]
        components.append(component)
    return components, {refs[name]: {refs[other] for other in needed.get(name, ())} for name in used}


def names(requirements: Iterable[str]) -> set[str]:
    """Return the names of the packages of requirements, as lock files write them."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", each)[0]).lower() for each in requirements}


def of_packages(locked: list[Package], pyproject: Json, xmml: str) -> tuple[list[Json], dict[str, set[str]]]:
    """Return the components that are Python packages, and which of them each needs; `xmml` is the name of the whole."""
    edges: dict[str, set[str]] = {}
    refs: dict[str, set[str]] = {}
    for package in locked:
        refs.setdefault(package.name, set()).add(f"pkg:pypi/{package.name}@{package.version}")
        for other in package.needed_by:
            edges.setdefault(other, set()).add(package.name)
    required = reachable(names(pyproject["project"]["dependencies"]), edges)
    with_extras = reachable(edges[PROJECT], edges)
    edges[PROJECT] |= names(pyproject["build-system"]["requires"])
    components = []
    for package in locked:
        ref = f"pkg:pypi/{package.name}@{package.version}"
        scope = "required" if package.name in required else "optional" if package.name in with_extras else "excluded"
        component: Json = {
            "type": "library",
            "bom-ref": ref,
            "name": package.name,
            "version": package.version,
            "purl": ref,
            "scope": scope,
        }
        if package.marker:
            component["properties"] = [{"name": "python:marker", "value": package.marker}]
        components.append(component)
    refs[PROJECT] = {xmml}
    needed = {
        ref: {it for other in others for it in refs[other]} for name, others in edges.items() for ref in refs[name]
    }
    return components, needed


def bill(known: Iterable[Json], cargo_lock: str, requirements_lock: str, pyproject: Json, made_s: int) -> Json:
    """Return the bill of materials. `known` is what cargo knows for each platform, `made_s` the time [s since 1970]."""
    project = pyproject["project"]
    xmml = f"pkg:pypi/{project['name']}@{project['version']}"
    components, needed = of_packages(packages(requirements_lock), pyproject, xmml)
    for each in known:
        found, edges = of_crates(each, crates(cargo_lock))
        components += found
        for ref, others in edges.items():
            needed.setdefault(ref, set()).update(others)
        installed = {each["bom-ref"] for each in found if each["name"] in INSTALLED}
        needed.setdefault(xmml, set()).update(installed)
    # What is linked on one platform may only build on another: `required` comes after `excluded`.
    by_ref = {each["bom-ref"]: each for each in sorted(components, key=lambda each: (each["bom-ref"], each["scope"]))}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(made_s)),
            "component": {
                "type": "application",
                "bom-ref": xmml,
                "name": project["name"],
                "version": project["version"],
                "purl": xmml,
                "licenses": [{"expression": project["license"]}],
            },
        },
        "components": list(by_ref.values()),
        "dependencies": [{"ref": ref, "dependsOn": sorted(needed.get(ref, ()))} for ref in (xmml, *by_ref)],
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    made_s = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    known = [metadata(platform) for platform in PLATFORMS]
    made = bill(known, CARGO_LOCK.read_text(), REQUIREMENTS_LOCK.read_text(), pyproject, made_s)
    text = json.dumps(made, indent=2) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong:
        print(f"this is no CycloneDX: {wrong}", file=sys.stderr)
        return 1
    xmml = made["metadata"]["component"]
    file = Path(arguments[0]) / f"{xmml['name']}-{xmml['version']}.cdx.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    print(f"{file}: {len(made['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
