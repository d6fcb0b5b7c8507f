"""A model of three languages: Java calls C++, and gives what it has to Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from needs import needs_java

if TYPE_CHECKING:
    from tests.models.conftest import RunModel

HERE = Path(__file__).parent


@needs_java
@pytest.mark.parametrize("methods", ["shm", "tcp"])
def test_java_calls_cpp_and_tells_python(
    run_model: RunModel, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, methods: str
) -> None:
    monkeypatch.setitem(environment, "XMML_METHODS", methods)
    run = run_model(HERE / "java_between")
    assert run.lines("ocean") == [
        "heat [[11.0, 12.5], [22.0, 23.5], [33.0, 34.5]]",
        "heat [[11.0, 13.0], [23.0, 25.0], [35.0, 37.0]]",
        "heat [[11.0, 13.5], [24.0, 26.5], [37.0, 39.5]]",
    ]
    assert run.lines("atlas") == [
        "deep 2000.0 [[11.0, 13.5], [24.0, 26.5], [37.0, 39.5]] uint16 [True, False]",
    ]
