"""Models for the tests of planning, written as short documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xmml.check import check
from xmml.model import Model

HEAD = (
    '<model id="m" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
    "<definitions>"
)
SENDER = (
    '<submodel id="A"><timescale delta="1 s" total="3 s"/><ports><out id="o" operator="Oi"/></ports>'
    '<implementation><code language="python" part="Oi">o = t</code></implementation></submodel>'
)
RECEIVER = (
    '<submodel id="B"><timescale delta="1 s" total="3 s"/><ports><in id="i" operator="S"/></ports>'
    '<implementation><code language="python" part="S">print(i)</code></implementation></submodel>'
)


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str, str], Model]:
    """Return a function that makes a model from definitions and a topology; A sends on `o`, B receives on `i`."""

    def make(topology: str, definitions: str = "") -> Model:
        path = tmp_path / "model.xmml"
        path.write_text(f"{HEAD}{definitions}{SENDER}{RECEIVER}</definitions><topology>{topology}</topology></model>")
        return check(path).model_or_raise()

    return make
