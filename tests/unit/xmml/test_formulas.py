"""Formulas: precedence, functions, errors, text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmml.formulas import Binary, Call, Formula, FormulaError, Negated, Node, Number, SizeOf, Variable, parse

XY = {"x": 2, "y": 3}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x*y", 6),
        ("x^2", 4),
        ("x*sizeof(double)", 128),
        ("log(x)", 0.6931471805599453),
        ("y*y+x*y-x+x*log(x)-sqrt(x)-sqrt(y)", 11.240029991177918),
        ("x*sizeof(double) + (x+y)/-x", 125.5),
        ("((x+x)*3 + (x+y)/x)", 14.5),
        ("2*sizeof(int)+4*sizeof(double)", 320),
        ("-2^2", -4),
        ("2^-1", 0.5),
        ("2*-3", -6),
        ("8/4*2", 4),
        ("10-2*3-1", 3),
        ("2^3^2", 64),
        ("log(x)^2", math.log(2) ** 2),
        ("log(x)*2", 2 * math.log(2)),
        ("x-1", 1),
        ("3-2", 1),
        ("x*(y-1)", 4),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("1 0", 10),
        ("logx", 7),
        ("1/0", math.inf),
        ("-1/0", -math.inf),
        ("log(0)", -math.inf),
        ("sizeof(LONG)+sizeof(float)+sizeof(short)+sizeof(byte)+sizeof(char)", 64 + 32 + 16 + 8 + 8),
        ("10^400", math.inf),
        ("--x", 2),
    ],
)
def test_a_formula_has_its_value(text: str, value: float) -> None:
    assert parse(text).evaluate({**XY, "logx": 7}) == pytest.approx(value, rel=1e-15)


def test_the_size_of_a_thousand_agents_is_320_000_bits() -> None:
    assert parse("4*n*sizeof(double)+n*sizeof(double)").evaluate({"n": 1000}) == 320000


@pytest.mark.parametrize("text", ["0/0", "log(0-1)", "sqrt(0-1)", "(0-8)^(1/3)"])
def test_what_has_no_real_value_is_not_a_number(text: str) -> None:
    assert math.isnan(parse(text).evaluate())


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "()", "x+", "*x", "x**2", "3%2", "2x", "a.b", "max(x,y)", "(x", "x)", "((x)", "x y(", "1..2"),
        *(
            "sizeof",
            "sizeof()",
            "sizeof(string)",
            "sizeof(double",
            "log()",
            "sqrt",
            "x=1",
            "é",
            "1e",
            "(" * 50 + "x" + ")" * 50,
        ),
        "+".join(["x"] * 500),
    ],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(FormulaError):
        parse(text)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(FormulaError, match='"y"'):
        parse("x+y").evaluate({"x": 1})


def test_the_variables_are_listed() -> None:
    assert parse("x*sizeof(double)+log(n_1)-x").variables() == {"x", "n_1"}


leaves = st.one_of(
    st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(Number),
    st.sampled_from(["x", "y", "steps", "logx"]).map(Variable),
    st.sampled_from(["double", "int"]).map(SizeOf),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Call, st.sampled_from(["log", "sqrt"]), inner),
        st.builds(Negated, inner),
        st.builds(Binary, st.sampled_from("+-*/^"), inner, inner),
    ),
    max_leaves=25,
)


@given(trees)
def test_printing_and_reading_gives_the_same_formula(tree: Node) -> None:
    assert parse(str(Formula(tree))).tree == tree


@given(st.text(max_size=60) | st.text("0123456789.eE+-*/^() xlogsqrtsizeof", max_size=40))
def test_any_text_is_a_formula_or_refused_with_our_own_error(text: str) -> None:
    try:
        formula = parse(text)
    except FormulaError:
        return
    assert isinstance(formula.evaluate(dict.fromkeys(formula.variables(), 1.5)), float)
