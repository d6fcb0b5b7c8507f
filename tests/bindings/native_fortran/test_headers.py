"""How generate.py puts what C headers declare into Fortran."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

GENERATE = runpy.run_path(str(Path(__file__).parents[3] / "native/fortran/generate.py"))


def interface(header: str) -> list[str]:
    """Return the lines of the interface of the one function that a header declares."""
    (function,) = GENERATE["declarations_in"]("xmml.h", header, GENERATE["FUNCTION"])
    return [line.strip() for line in GENERATE["interface"](function) if line]


@pytest.mark.parametrize(
    ("parameter", "declared"),
    [
        ("uint32_t to", "integer(c_int), value :: to"),
        ("xmml_order order", "integer(c_int), value :: order"),
        ("const char *port", "character(kind=c_char), intent(in) :: port(*)"),
        ("const size_t *shape", "integer(c_size_t), intent(in) :: shape(*)"),
        ("const void *data", "type(c_ptr), value :: data"),
        ("xmml_instance *me", "type(c_ptr), value :: me"),
        ("xmml_instance **me", "type(c_ptr), intent(inout) :: me"),
        ("const char **text", "type(c_ptr), intent(inout) :: text"),
        ("double *value", "real(c_double), intent(inout) :: value"),
        ("xmml_array *array", "type(c_array), intent(inout) :: array"),
    ],
)
def test_a_parameter_becomes_what_its_type_says(parameter: str, declared: str) -> None:
    assert interface(f"xmml_status xmml_do(size_t first,\n    {parameter});")[3] == declared


def test_a_function_without_result_is_a_subroutine() -> None:
    assert interface("void xmml_do(int a);")[0] == 'subroutine c_do(a) bind(c, name="xmml_do")'


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        ("int xmml_do(float x);", "xmml.h:4: no type of Fortran is known for float"),
        ("long xmml_do(int x);", "xmml.h:4: no type of Fortran is known for long"),
        ("int xmml_do(int x[3]);", r"xmml.h:4: cannot read 'int x\[3\]'"),
    ],
)
def test_what_cannot_be_put_into_fortran_is_told_with_its_line(declaration: str, problem: str) -> None:
    with pytest.raises(GENERATE["HeaderError"], match=problem):
        interface(f"/* A comment\n   of two lines. */\n\n{declaration}\n")
