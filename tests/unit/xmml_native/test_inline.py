"""Programs written inside the model."""

from __future__ import annotations

from typing import Any

import pytest
from xmml_native import Error, Instance
from xmml_native.errors import describe
from xmml_native.inline import InlineProgram, dedent


def code(part: str, text: str, line: int = 10) -> dict[str, Any]:
    return {"part": part, "text": text, "line": line, "file": "model.xml"}


def test_ports_are_variables() -> None:
    me = Instance.alone(ports={"x": "Oi", "y": "S", "end": "Of"}, inputs={"y": [1, 2, 3]}, steps=3)
    program = InlineProgram(
        me,
        [
            code("header", "total = 0"),
            code("Oi", "\n    x = (t, step)\n"),
            code("S", "\n    total += y\n"),
            code("Of", "end = total"),
        ],
    )
    program.run()
    assert [m.data for m in me.outputs["x"]] == [[0.0, 0], [1.0, 1], [2.0, 2]]
    assert me.outputs["end"][0].data == 6


def test_the_initial_state_is_a_variable_in_every_run() -> None:
    me = Instance.alone(ports={"start": "finit", "end": "Of"}, inputs={"start": ["a", "b"]})
    InlineProgram(me, [code("Of", "end = start + str(run)")]).run()
    assert [m.data for m in me.outputs["end"]] == ["a0", "b1"]


def test_an_out_port_without_a_variable_is_an_error_with_the_place() -> None:
    me = Instance.alone(ports={"x": "Oi"})
    with pytest.raises(Error, match=r'model.xml:10: .*no variable "x" is set'):
        InlineProgram(me, [code("Oi", "y = 1")]).run()


def test_errors_name_the_line_of_the_model() -> None:
    me = Instance.alone(ports={"x": "Oi"})
    with pytest.raises(ZeroDivisionError) as caught:
        InlineProgram(me, [code("Oi", "\n\n    x = 1 / 0\n", line=41)]).run()
    assert describe(caught.value) == "ZeroDivisionError: division by zero at model.xml:43"


def test_unknown_parts_are_refused() -> None:
    me = Instance.alone(ports={"x": "Oi"})
    with pytest.raises(Error, match=r'part="Oo"; parts are header, finit'):
        InlineProgram(me, [code("Oo", "x = 1")])


@pytest.mark.parametrize(
    ("text", "dedented"),
    [
        ("a = 1", "a = 1"),
        ("\n    a = 1\n      b\n  ", "\na = 1\n  b\n"),
        ("a = 1\n    b = 2\n", "a = 1\nb = 2\n"),
        ("\n\tif a:\n\t\tb\n\n\tc", "\nif a:\n\tb\n\nc"),
    ],
)
def test_the_margin_of_the_document_is_taken_off(text: str, dedented: str) -> None:
    assert dedent(text) == dedented
