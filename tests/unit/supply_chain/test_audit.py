"""The audit: what it finds, and what it says of a database that it does not reach.

Stand-ins play cargo-deny and pip-audit.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import audit
import pytest
from locks import Package

CARGO_LOCK = """
[[package]]
name = "pyo3"
version = "{version}"
source = "registry+https://example.org/index"
checksum = "00"
"""

# Answers for each package that it is asked about, as pip-audit does; one that it cannot find is skipped.
PIP_AUDIT = """\
#!/usr/bin/env python3
import json, sys
known = json.loads({known!r})
answers = []
for line in sys.stdin.read().split():
    name, version = line.split("==")
    answer = {{"version": version, "vulns": known[line]}} if line in known else {{"skip_reason": "?"}}
    answers.append({{"name": name, **answer}})
print(json.dumps({{"dependencies": answers, "fixes": []}}))
"""


class Tools:
    """Stand-ins on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"

    def cargo_deny(self, **statuses: int) -> None:
        """Let cargo-deny end with a status for `fetch`, `licenses` or `advisories`; others succeed."""
        cases = "".join(f'*" {word} "*) echo wrong >&2; exit {status};; ' for word, status in statuses.items())
        self.write("cargo-deny", f'#!/bin/sh\necho "$*" >>{self.calls}\ncase " $* " in {cases} esac\n')

    def pip_audit(self, known: dict[str, list[dict[str, object]]]) -> None:
        self.write("pip-audit", PIP_AUDIT.format(known=json.dumps(known)))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """An audit of one crate and one package, of which nothing bad is known; all databases are reached."""
    made = Tools(tmp_path)
    made.cargo_deny()
    made.pip_audit({"rich==15.0.0": []})
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    monkeypatch.setattr(audit, "CARGO_LOCK", tmp_path / "Cargo.lock")
    audit.CARGO_LOCK.write_text(CARGO_LOCK.format(version="0.30.1"))
    monkeypatch.setattr(audit, "REQUIREMENTS_LOCK", tmp_path / "requirements.lock")
    audit.REQUIREMENTS_LOCK.write_text(
        f"rich==15.0.0 \\\n    --hash=sha256:{'0' * 64}\n    # via xmml (pyproject.toml)\n"
    )

    database = tmp_path / "database" / "advisory-db-1"
    monkeypatch.setattr(audit, "RUSTSEC", database.parent)
    name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "--quiet", database], check=True)
    subprocess.run(
        ["git", "-C", database, *name, "commit", "--quiet", "--allow-empty", "--message", "a"],
        env={**os.environ, "GIT_COMMITTER_DATE": "2031-02-03T00:00:00Z"},
        check=True,
    )
    return made


@pytest.mark.usefixtures("tools")
def test_an_audit_that_finds_nothing_says_which_databases_it_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main([]) == 0
    told = capsys.readouterr().out
    assert "RustSec's database of 2031-02-03" in told
    assert "about 1 packages" in told


@pytest.mark.parametrize("check", ["licenses", "advisories"])
def test_what_cargo_deny_refuses_fails_the_audit_and_is_shown(
    tools: Tools, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.cargo_deny(**{check: 4})
    assert audit.main([]) == 1
    assert "    wrong\n" in capsys.readouterr().out


def test_an_advisory_about_a_python_package_fails_the_audit(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    tools.pip_audit({"rich==15.0.0": [{"id": "PYSEC-1", "fix_versions": ["15.0.1"]}]})
    assert audit.main([]) == 1
    assert "rich 15.0.0: PYSEC-1, fixed in 15.0.1" in capsys.readouterr().out


def test_crates_are_compared_with_the_snapshot_where_no_database_is_reached(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.cargo_deny(fetch=1)
    assert audit.main([]) == 2
    told = capsys.readouterr().out
    assert "NOT CHECKED" in told
    assert "nothing found in advisories.toml, RustSec's of 20" in told


def test_a_crate_that_the_snapshot_knows_fails_the_audit_without_a_database(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.cargo_deny(fetch=1)
    audit.CARGO_LOCK.write_text(CARGO_LOCK.format(version="0.27.2"))
    assert audit.main([]) == 1
    assert "pyo3 0.27.2: RUSTSEC-2026-0176" in capsys.readouterr().out


def test_an_audit_in_which_pypi_was_not_reached_is_no_success(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    tools.pip_audit({})
    assert audit.main([]) == 2
    assert "cannot be reached for 1 of 1 packages" in capsys.readouterr().out


def test_a_pip_audit_that_says_nothing_is_no_success(tools: Tools) -> None:
    tools.write("pip-audit", "#!/bin/sh\necho no network >&2; exit 1\n")
    assert audit.main([]) == 2


def test_with_the_snapshot_no_database_is_asked_and_what_was_not_checked_is_said(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    tools.write("pip-audit", f"#!/bin/sh\necho pip-audit >>{tools.calls}\n")
    assert audit.main(["--snapshot"]) == 0
    asked = tools.calls.read_text()
    assert "licenses sources" in asked
    assert not any(word in asked for word in ("fetch", "advisories", "pip-audit"))
    assert "Python: advisories             NOT CHECKED" in capsys.readouterr().out


@pytest.mark.usefixtures("tools")
def test_a_crate_of_which_the_snapshot_knows_nothing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    audit.CARGO_LOCK.write_text(CARGO_LOCK.format(version="1.0.0").replace("pyo3", "unheard-of"))
    assert audit.main(["--snapshot"]) == 0
    assert "says nothing about unheard-of" in capsys.readouterr().out


def test_each_version_of_a_package_is_asked_about() -> None:
    numpy, other, rich = (
        Package(name, version, None, (), ()) for name, version in [("numpy", "1"), ("numpy", "2"), ("rich", "3")]
    )
    assert audit.one_version_each([numpy, other, rich]) == [[numpy, rich], [other]]
