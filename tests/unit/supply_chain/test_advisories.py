"""Which versions an advisory is about, and how the snapshot of advisories is made."""

from __future__ import annotations

import json
from pathlib import Path

import advisories
import pytest
import snapshot
from advisories import Advisory
from locks import Crate


@pytest.mark.parametrize(
    ("version", "concerned"),
    [
        ("0.3.5", False),
        ("0.3.6", True),
        ("0.3.46", True),
        ("0.3.47-rc.1", True),
        ("0.3.47", False),
        ("0.3.47+build.7", False),
        ("1.0.0-alpha.2", False),
        ("1.0.0-alpha.10", True),
        ("1.0.0-beta", True),
        ("2.0.0", True),
    ],
)
def test_an_advisory_concerns_the_versions_of_its_ranges(version: str, concerned: bool) -> None:
    advisory = Advisory("RUSTSEC-0000-0000", "time", (("0.3.6", "0.3.47"), ("1.0.0-alpha.3",)))
    assert advisory.concerns(Crate("time", version, "")) == concerned
    assert not advisory.concerns(Crate("another", version, ""))


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of RustSec about a crate that is locked, and one that is not."""

    def affected(name: str, *events: dict[str, str]) -> dict[str, object]:
        return {"package": {"ecosystem": "crates.io", "name": name}, "ranges": [{"type": "SEMVER", "events": events}]}

    for number, day, more, about in [
        (1, "2031-02-03", {}, affected("libc", {"introduced": "0.0.0-0"}, {"fixed": "0.1.2"}, {"introduced": "2.0.0"})),
        (2, "2031-02-04", {"withdrawn": "2031-02-04T00:00:00Z"}, affected("libc", {"introduced": "0.0.0-0"})),
        (3, "2031-02-01", {}, affected("not-locked", {"introduced": "0.0.0-0"})),
    ]:
        record = {"id": f"RUSTSEC-2031-000{number}", "modified": f"{day}T00:00:00Z", "affected": [about], **more}
        (tmp_path / f"{record['id']}.json").write_text(json.dumps(record))
    for module in (advisories, snapshot):
        monkeypatch.setattr(module, "SNAPSHOT", tmp_path / "advisories.toml")
    return tmp_path


def test_a_snapshot_holds_what_is_known_about_locked_crates(records: Path) -> None:
    assert snapshot.main([str(records)]) == 0
    made = advisories.snapshot()
    assert made.advisories == (Advisory("RUSTSEC-2031-0001", "libc", (("0.0.0-0", "0.1.2"), ("2.0.0",))),)
    assert made.day.isoformat() == "2031-02-04"
    assert "pyo3" in made.crates
    assert "not-locked" not in made.crates


def test_a_folder_without_records_makes_no_snapshot(
    records: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert snapshot.main([str(tmp_path_factory.mktemp("empty"))]) == 2
    assert "there is no RUSTSEC-*.json below" in capsys.readouterr().err
    assert not (records / "advisories.toml").exists()
