"""The Python API for notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import networkx
import pytest

import xmml
from xmml.model import Model

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "workflows/macro-micro/model.xmml"


@pytest.fixture
def model() -> Model:
    return xmml.load(MODEL)


def test_a_model_is_a_line_on_a_terminal(model: Model) -> None:
    assert repr(model) == f"<Model macro-micro: 2 instances, 2 couplings, from {MODEL}>"


def test_a_model_shows_its_instances_as_html(model: Model) -> None:
    html = model._repr_html_()
    assert "<td>diffusion</td>" in html
    assert "<script" not in html


def test_the_check_of_a_loaded_model_is_that_of_the_document(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(MODEL.read_text())
    result = xmml.load(path).check()
    assert {problem.code for problem in result.problems} == {"W14"}
    assert "W14" in repr(result)
    assert "W14" in result._repr_html_()


def test_an_analysis_shows_its_verdict(model: Model) -> None:
    analysis = model.analyse()
    assert repr(analysis) == "<Analysis of macro-micro: finished>"
    assert "finished" in analysis._repr_html_()


def test_the_coupling_graph_is_a_multigraph(model: Model) -> None:
    graph = model.graph("coupling")
    assert isinstance(graph, networkx.MultiDiGraph)
    assert set(graph) >= {"diffusion", "reaction"}


def test_an_unknown_view_names_the_known_ones(model: Model) -> None:
    with pytest.raises(ValueError, match="coupling, task, domain, scales"):
        model.graph("copling")


def test_a_wrong_document_raises_with_its_problems(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(MODEL.read_text().replace('to="reaction.start"', 'to="reaction.strt"'))
    with pytest.raises(xmml.ModelError, match=r"model\.xmml:\d+:\d+: error\[E05\]"):
        xmml.load(path)


def test_text_of_a_model_is_no_html(tmp_path: Path) -> None:
    path = tmp_path / "model.xmml"
    path.write_text(MODEL.read_text().replace("<description>", "<description>&lt;script&gt;"))
    assert "<script" not in xmml.load(path)._repr_html_()


def test_importing_xmml_loads_none_of_it() -> None:
    code = "import sys, xmml; print([m for m in ('lxml', 'networkx', 'matplotlib', 'xmml.model') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_examples_of_the_documentation_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/notebook.md").read_text(), re.DOTALL)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/notebook.md", "exec"), names)
