"""Writes the Fortran peer: what it says once by hand, and once for each element type and rank."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

TEMPLATE = Path(__file__).parents[1] / "models" / "languages" / "peer.f90"
#: Element type: how Fortran declares it, and what more its calls are given.
TYPES = {
    "bool": ("logical(c_bool)", ""),
    **{f"int{bits}": (f"integer(int{bits})", "") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (f"integer(int{bits})", ", unsigned=.true.") for bits in (8, 16, 32, 64)},
    "float32": ("real(real32)", ""),
    "float64": ("real(real64)", ""),
    "complex64": ("complex(real32)", ""),
    "complex128": ("complex(real64)", ""),
}


def source() -> str:
    """Return the program."""
    pieces = [make(name, *how) for name, how in TYPES.items() for make in (_made, _bytes)]
    text = TEMPLATE.read_text().replace("@typed@\n", indent("\n".join(pieces), "    "))
    calls = {"@made@": "value = made_{0}(bytes, shape)", "@taken@": "call bytes_{0}(value, shape, bytes)"}
    for marker, call in calls.items():
        cases = "".join(f'        case ("{name}")\n            {call.format(name)}\n' for name in TYPES)
        text = text.replace(f"{marker}\n", cases)
    return text


def _made(name: str, declared: str, more: str) -> str:
    ranks = [
        "case (0)",
        f"    value = xmml_value(flat(1), array=.true.{more})",
        "case (1)",
        f"    value = xmml_value(flat{more})",
    ]
    for rank in range(2, 8):
        extents = ", ".join(f"e({i})" for i in range(1, rank + 1))
        ranks += [f"case ({rank})", f"    value = xmml_value(reshape(flat, [{extents}]){more})"]
    return f"""\
function made_{name}(bytes, e) result(value)
    integer(int8), intent(in) :: bytes(:)
    integer(int64), intent(in) :: e(:)
    type(xmml_value) :: value
    {declared}, allocatable :: flat(:)
    allocate(flat(product(e)))
    flat = transfer(bytes, flat, size(flat))
    select case (size(e))
{indent(chr(10).join(ranks), "    ")}
    end select
end function
"""


def _bytes(name: str, declared: str, more: str) -> str:
    colons = {rank: ",".join(":" * rank) for rank in range(1, 8)}
    arrays = "\n".join(f"    {declared}, allocatable :: a{rank}({colons[rank]})" for rank in colons)
    ranks = [
        "case (0)",
        f"    call value%get(a0{more})",
        "    bytes = transfer([a0], bytes)",
    ]
    for rank in colons:
        ranks += [
            f"case ({rank})",
            f"    call value%get(a{rank}{more})",
            f"    if (any(shape(a{rank}, int64) /= e)) error stop 3",
            f"    bytes = transfer(a{rank}, bytes)",
        ]
    return f"""\
subroutine bytes_{name}(value, e, bytes)
    class(xmml_value), intent(in) :: value
    integer(int64), intent(in) :: e(:)
    integer(int8), allocatable, intent(out) :: bytes(:)
    {declared} :: a0
{arrays}
    allocate(bytes(0))
    select case (size(e))
{indent(chr(10).join(ranks), "    ")}
    end select
end subroutine
"""
