"""The two forms of a small model, the value and the document, are the same model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_models import document, model

from xmml.check import check
from xmml.model import Model

EVERYTHING = """
a 3 init domain=artery.blood runtime=1.5 cores=4
u 2 stateful x4 space=1mm/10cm delta=1ms D=0.1
m mapper
n mapper
p until
q 5 until
s source class=text repeat=yes
f free
k sink
a.Oi -> m            # a comment
m -> u.finit
u.Of -> n
n -> a.S.flux capacity=2 size=80
a.Of.out -> p.finit | drop 2 | last
a.Of.out -> q.finit | interpolation 3
q.Of.state -> q.finit.before state
s -> q.B
p.Of -> k
"""


def test_the_value_is_what_reading_the_document_gives(tmp_path: Path) -> None:
    path = tmp_path / "small.xmml"
    path.write_text(document(EVERYTHING))
    result = check(path)
    assert not result.errors
    assert result.model is not None
    assert replace(result.model, path="small.xmml") == model(EVERYTHING)


@pytest.mark.parametrize("text", ["a\na.Oi -> b.S", "a\na.Oj -> a.S", "a thrice", "a\na", "a\na.Oi.x -> a.S.x"])
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(AssertionError):
        model(text)


def test_unnamed_ports_are_called_after_their_operators() -> None:
    made: Model = model("a\nb\na.Oi -> b.S\na.Oi -> b.S")
    assert [str(coupling) for coupling in made.couplings] == ["a.Oi -> b.S", "a.Oi2 -> b.S2"]
