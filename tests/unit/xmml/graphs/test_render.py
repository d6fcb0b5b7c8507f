"""Pictures through Graphviz."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import small_models
from lxml import etree
from needs import needs

from xmml.check import check
from xmml.graphs.render import RenderError, layout
from xmml.graphs.views import picture

pytestmark = needs("dot")

ROOT = Path(__file__).parents[4]
MODELS = sorted(ROOT.glob("workflows/*/model.xmml"))


def words_in(svg: bytes) -> list[str]:
    tree = etree.parse(io.BytesIO(svg))
    return ["".join(text.itertext()).strip() for text in tree.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("path", MODELS, ids=[path.parent.name for path in MODELS])
@pytest.mark.parametrize("view", ["coupling", "domain"])
def test_the_picture_of_every_workflow_has_all_its_instances(path: Path, view: str) -> None:
    model = check(path).model_or_raise()
    words = set(words_in(picture(model, view, "svg")))
    assert set(model.instances) <= {re.sub(r" ×\d+$", "", word) for word in words}
    assert (model.name or model.id) in words


@pytest.mark.parametrize(("form", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_png_and_pdf_are_what_they_say(form: str, begins: bytes) -> None:
    model = small_models.model("a 1\nb 1\na.Of -> b.finit")
    assert picture(model, "coupling", form).startswith(begins)  # type: ignore[arg-type]


def test_a_drawing_with_every_shape_and_sign_is_laid_out() -> None:
    sketch = "s source\na 2 init x3 domain=x.y\nm mapper\nt sink\ns -> m\nm -> a.finit\na.Oi -> a.B\na.Of -> t | drop 2"
    words = words_in(picture(small_models.model(sketch), "coupling", "svg"))
    assert "drop 2" in words
    assert "y" in words


def test_domains_nested_a_thousand_deep_are_laid_out() -> None:
    model = small_models.model(f"a 1 domain={'.'.join(['d'] * 1000)}\nb 1 domain=d\na.Of -> b.finit")
    assert picture(model, "coupling", "svg")
    assert picture(model, "domain", "svg")


def test_two_hundred_instances_are_drawn() -> None:
    parts = [f"c{number} 1 domain=d{number % 10}" for number in range(200)]
    ways = [f"c{number}.Of.o -> c{number + 1}.finit.i" for number in range(199)]
    assert picture(small_models.model("\n".join(parts + ways)), "coupling", "svg")


def test_what_graphviz_does_not_understand_is_said() -> None:
    with pytest.raises(RenderError, match="syntax error"):
        layout("digraph {", "svg")


def test_a_layout_that_takes_too_long_is_given_up() -> None:
    edges = "".join(f"n{one}->n{other};" for one in range(150) for other in range(150))
    with pytest.raises(RenderError, match="too large to be drawn"):
        layout(f"digraph {{{edges}}}", "svg", timeout_s=0.2)
