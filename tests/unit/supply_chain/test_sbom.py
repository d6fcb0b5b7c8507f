"""The bill of materials: what is part of a release, what only builds it, and what needs what."""

from __future__ import annotations

from typing import Any

import pytest
import sbom

CARGO_LOCK = "".join(
    f'[[package]]\nname = "{name}"\nversion = "1.0.0"\nsource = "registry"\nchecksum = "{name}00"\n'
    for name in ("linked", "builder", "macro", "of-macro", "of-tests")
)

REQUIREMENTS_LOCK = """\
numpy==1.0 ; python_full_version < '3.12' \\
    --hash=sha256:{hash}
    # via
    #   solver
    #   xmml (pyproject.toml)
numpy==2.0 ; python_full_version >= '3.12' \\
    --hash=sha256:{hash}
    # via
    #   solver
    #   xmml (pyproject.toml)
setuptools==84.2.1 \\
    --hash=sha256:{hash}
solver==3.0 \\
    --hash=sha256:{hash}
    --hash=sha256:{hash}
    # via xmml (pyproject.toml)
""".format(hash="0" * 64)

PYPROJECT = {
    "project": {"name": "xmml", "version": "0.1.0", "license": "Apache-2.0", "dependencies": ["NumPy>=1"]},
    "build-system": {"requires": ["setuptools>=77"]},
}


def crate(name: str, kind: str = "lib", source: str | None = "registry") -> dict[str, Any]:
    described = {"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source}
    return {**described, "targets": [{"kind": [kind]}]}


def node(name: str, **needed: str | None) -> dict[str, Any]:
    deps = [{"pkg": other.replace("_", "-"), "dep_kinds": [{"kind": kind}]} for other, kind in needed.items()]
    return {"id": name, "deps": deps}


METADATA = {
    "packages": [
        crate("mto", source=None),
        *(crate(name) for name in ("linked", "builder", "of-macro", "of-tests")),
        crate("macro", "proc-macro"),
    ],
    "resolve": {
        "nodes": [
            node("mto", linked=None, builder="build", macro=None, of_tests="dev"),
            node("macro", of_macro=None),
            *(node(name) for name in ("linked", "builder", "of-macro", "of-tests")),
        ]
    },
}


@pytest.fixture
def bill() -> dict[str, Any]:
    return sbom.bill([METADATA], CARGO_LOCK, REQUIREMENTS_LOCK, PYPROJECT, made_s=0)


def test_a_component_is_required_optional_or_needed_to_build_alone(bill: dict[str, Any]) -> None:
    assert {each["bom-ref"]: each["scope"] for each in bill["components"]} == {
        "pkg:cargo/mto@1.0.0": "required",
        "pkg:cargo/linked@1.0.0": "required",
        "pkg:cargo/builder@1.0.0": "excluded",
        "pkg:cargo/macro@1.0.0": "excluded",
        "pkg:cargo/of-macro@1.0.0": "excluded",
        "pkg:pypi/numpy@1.0": "required",
        "pkg:pypi/numpy@2.0": "required",
        "pkg:pypi/solver@3.0": "optional",
        "pkg:pypi/setuptools@84.2.1": "excluded",
    }


def test_what_is_linked_on_one_platform_is_required_though_it_only_builds_on_another() -> None:
    there = {**METADATA, "resolve": {"nodes": [node("mto", linked="build"), *METADATA["resolve"]["nodes"][1:]]}}
    for known in ([METADATA, there], [there, METADATA]):
        made = sbom.bill(known, CARGO_LOCK, REQUIREMENTS_LOCK, PYPROJECT, made_s=0)
        scopes = {each["name"]: each["scope"] for each in made["components"]}
        assert scopes["linked"] == "required"


def test_a_crate_from_elsewhere_has_its_licence_and_its_hash(bill: dict[str, Any]) -> None:
    linked = next(each for each in bill["components"] if each["name"] == "linked")
    assert linked["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert linked["hashes"] == [{"alg": "SHA-256", "content": "linked00"}]


def test_the_bill_says_what_needs_what(bill: dict[str, Any]) -> None:
    needed = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert needed["pkg:pypi/xmml@0.1.0"] == [
        "pkg:cargo/mto@1.0.0",
        "pkg:pypi/numpy@1.0",
        "pkg:pypi/numpy@2.0",
        "pkg:pypi/setuptools@84.2.1",
        "pkg:pypi/solver@3.0",
    ]
    assert needed["pkg:pypi/solver@3.0"] == ["pkg:pypi/numpy@1.0", "pkg:pypi/numpy@2.0"]
    assert needed["pkg:cargo/macro@1.0.0"] == ["pkg:cargo/of-macro@1.0.0"]
