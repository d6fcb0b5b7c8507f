"""Documents to read and ways to change them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xmml.check import CheckResult, check

DOCUMENTS = Path(__file__).parents[2] / "data" / "documents"
HEAD = '<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'

CheckText = Callable[..., CheckResult]


@pytest.fixture
def documents() -> Path:
    """The folder of example documents."""
    return DOCUMENTS


@pytest.fixture
def check_text(tmp_path: Path) -> CheckText:
    """Check a document given as text."""

    def run(text: str, **options: object) -> CheckResult:
        path = tmp_path / "model.xml"
        path.write_text(text, encoding="utf-8")
        (tmp_path / "diffusion.py").touch()  # the program of the reaction model
        return check(path, **options)  # type: ignore[arg-type]

    return run


@pytest.fixture
def check_changed(check_text: CheckText) -> CheckText:
    """Check the reaction model with pieces of its text replaced."""

    def run(*changes: tuple[str, str], **options: object) -> CheckResult:
        text = (DOCUMENTS / "reaction.xml").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"{old} is not in the document"
            text = text.replace(old, new, 1)
        return check_text(text, **options)

    return run


@pytest.fixture
def check_parts(check_text: CheckText) -> CheckText:
    """Check a model given as the contents of its definitions and topology."""

    def run(definitions: str, topology: str, **options: object) -> CheckResult:
        text = f"{HEAD}\n<definitions>\n{definitions}\n</definitions>\n<topology>\n{topology}\n</topology>\n</model>"
        return check_text(text, **options)

    return run
