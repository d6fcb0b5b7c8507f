"""What `make release` does, tried on a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {f"GIT_{who}_{what}": "somebody@x.y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
#: The checkout may belong to somebody else.
ENVIRONMENT |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def git(folder: Path, *words: str) -> str:
    command = ["git", *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with the files of the checkout as they are now, and one fragment."""
    if not (ROOT / ".git").exists():
        pytest.skip("the files of a release are those that git knows: needs a checkout")
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")[:-1]:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    for fragment in (tmp_path / "changes").glob("*.*.md"):
        fragment.unlink()
    (tmp_path / "changes/faster-start.changed.md").write_text("Runs start [sooner](docs/performance.md).\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def release(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/release", *words]
    return subprocess.run(command, cwd=folder, env=os.environ | ENVIRONMENT, capture_output=True, text=True)


def test_a_release_has_its_changes_its_version_everywhere_and_a_tag(copy: Path) -> None:
    done = release(copy, "9.8.7")
    assert done.returncode == 0, done.stderr
    change = "### Changed\n\n* Runs start [sooner](docs/performance.md)."
    heading = f"<!-- releases -->\n\n## 9.8.7 ({date.today()})\n\n{change}\n\n## 0.1.0\n"
    assert heading in (copy / "CHANGELOG.md").read_text()
    assert [path.name for path in (copy / "changes").glob("*.md")] == ["README.md"]
    for name in ("pyproject.toml", "Cargo.toml", "xmml/__init__.py", "CITATION.cff"):
        assert "9.8.7" in (copy / name).read_text(), name
    assert 'name = "xmml-core"\nversion = "9.8.7"' in (copy / "Cargo.lock").read_text()
    assert "xmml-9.8.7-" in (copy / "docs/images.md").read_text()
    assert git(copy, "describe").strip() == "v9.8.7"
    assert git(copy, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "which version?"), (("next",), "which version?"), (("0.0.1",), "0.0.1 does not follow")],
)
def test_what_is_no_next_version_is_refused(copy: Path, words: tuple[str, ...], told: str) -> None:
    done = release(copy, *words)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr


def test_nothing_is_released_from_a_changed_checkout_or_without_a_change(copy: Path) -> None:
    (copy / "README.md").write_text("changed")
    assert "commit or remove these first:\n M README.md" in release(copy, "9.8.7").stderr
    git(copy, "rm", "--quiet", "changes/faster-start.changed.md")
    git(copy, "commit", "--quiet", "--all", "--message", "Take it back")
    assert "changes/ has no fragment" in release(copy, "9.8.7").stderr
