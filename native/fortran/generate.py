"""Writes xmml.f90, the one file that is the Fortran API: modules by hand, with what differs only by type and rank.

A line `@name@` in a module stands for the file name.f90, or for what is made here.

Fortran has no procedure for "an array of any type and rank", so each gets its own behind a generic name.
Run by the build:

    python native/fortran/generate.py > xmml.f90
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

HERE = Path(__file__).resolve().parent
MODULES = ["xmml_c", "xmml_errors", "xmml_values", "xmml_instances", "xmml_alones", "xmml"]
RANKS = range(8)

HEADERS = [HERE.parent / "c/include" / name for name in ("xmml.h", "xmml_handles.h", "xmml_pools.h", "xmml_team.h")]

# How Fortran declares a C type; enums are integer(c_int).
C_TYPES = {
    "char": "character(kind=c_char)",
    "int": "integer(c_int)",
    "uint32_t": "integer(c_int)",
    "int64_t": "integer(c_int64_t)",
    "uint64_t": "integer(c_int64_t)",
    "size_t": "integer(c_size_t)",
    "double": "real(c_double)",
    "xmml_array": "type(c_array)",
    "xmml_block": "type(c_block)",
    "xmml_port": "type(c_port)",
    "xmml_scale": "type(xmml_scale)",
}
# Arguments that may be NULL although they are texts or arrays.
NULLABLE = {("block_of", "shape"), ("param_double", "unit"), ("param_int", "unit")}


@dataclass(frozen=True)
class Type:
    """An element type: the suffix of its procedures, how Fortran declares it, its number in xmml.h."""

    name: str
    declared: str
    dtype: str

    @property
    def is_integer(self) -> bool:
        """Whether there is a type of the same size without a sign."""
        return self.name.startswith("i")

    @property
    def is_logical(self) -> bool:
        """Whether elements are converted to bytes and back."""
        return self.name.startswith("bool")


TYPES = [
    *(Type(f"i{bits}", f"integer(int{bits})", f"XMML_I{bits}") for bits in (8, 16, 32, 64)),
    Type("f32", "real(real32)", "XMML_F32"),
    Type("f64", "real(real64)", "XMML_F64"),
    Type("c64", "complex(real32)", "XMML_C64"),
    Type("c128", "complex(real64)", "XMML_C128"),
    Type("bool", "logical", "XMML_BOOL"),
    Type("bool8", "logical(c_bool)", "XMML_BOOL"),
]


def dimensions(rank: int) -> str:
    """`(:,:)` for rank 2."""
    return f"({','.join(':' * rank)})" if rank else ""


# --------------------------------------------------------------------------------------------------- C's declarations

ENUM = r"^typedef enum (?P<name>\w+) \{(?P<body>[^}]*)\} \w+;"
STRUCT = r"^typedef struct (?P<name>\w+) \{(?P<body>[^}]*)\} \w+;"
OPAQUE = r"^typedef struct (?P<name>\w+) \w+;"
FUNCTION = r"^(?P<result>(const )?\w+ \*?)xmml_(?P<name>\w+)\((?P<parameters>[^()]*)\);"
SIZE = r"^#define (?P<name>\w+) (?P<value>\d+)$"


class HeaderError(Exception):
    """A declaration that cannot be put into Fortran."""


@dataclass(frozen=True)
class Declaration:
    """What a header declares, and where: "xmml.h:41"."""

    place: str
    parts: dict[str, str]


@cache
def declarations(pattern: str) -> list[Declaration]:
    """Return what the headers declare in this form."""
    return [each for header in HEADERS for each in declarations_in(header.name, header.read_text(), pattern)]


def declarations_in(name: str, text: str, pattern: str) -> Iterator[Declaration]:
    """Yield what the text of a header declares in this form."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    for found in re.finditer(pattern, text, re.MULTILINE):
        line = text.count("\n", 0, found.start()) + 1
        yield Declaration(f"{name}:{line}", found.groupdict())


def names(pattern: str) -> set[str]:
    """Return the names that the headers declare in this form."""
    return {each.parts["name"] for each in declarations(pattern)}


def by_value(c_type: str, place: str) -> str:
    """Declare a C type that is no pointer.

    Raises:
        HeaderError: there is none for it in Fortran.
    """
    if c_type in names(ENUM):
        return "integer(c_int)"
    if c_type not in C_TYPES:
        raise HeaderError(f"{place}: no type of Fortran is known for {c_type}; C_TYPES in generate.py lists them")
    return C_TYPES[c_type]


def matched(pattern: str, text: str, place: str) -> re.Match[str]:
    """Return the match of a part of a declaration.

    Raises:
        HeaderError: it has another form.
    """
    found = re.fullmatch(pattern, " ".join(text.split()))
    if not found:
        raise HeaderError(f"{place}: cannot read '{text.strip()}'")
    return found


def dummy_argument(function: str, parameter: str, place: str) -> tuple[str, str]:
    """Return the name of a parameter, and its declaration in Fortran.

    A `const T *` is a text that ends with a 0 byte, or an array; a `T *` is a place for a T; other pointers are passed
    as they are.
    """
    const, c_type, stars, name = matched(r"(const )?(\w+) (\*{0,2})(\w+)", parameter, place).groups()
    if stars == "**":
        return name, f"type(c_ptr), intent(inout) :: {name}"
    if stars and (c_type in {"void", *names(OPAQUE)} or (function, name) in NULLABLE):
        return name, f"type(c_ptr), value :: {name}"
    declared = by_value(c_type, place)
    if not stars:
        return name, f"{declared}, value :: {name}"
    return name, f"{declared}, intent(in) :: {name}(*)" if const else f"{declared}, intent(inout) :: {name}"


def interface(function: Declaration) -> Iterator[str]:
    """Yield the interface of a C function."""
    name, result, place = function.parts["name"], function.parts["result"].strip(), function.place
    parameters = [each for each in function.parts["parameters"].split(",") if each != "void"]
    arguments = [dummy_argument(name, each, place) for each in parameters]
    what = "subroutine" if result == "void" else "function"
    head = f'{what} c_{name}({", ".join(argument for argument, _ in arguments)}) bind(c, name="xmml_{name}")'
    if what == "function":
        head += " result(given)"
    if len(head) > 120:
        head = head.replace(" bind(c", " &\n        bind(c")
    yield head
    yield "    import"
    yield from (f"    {declaration}" for _, declaration in arguments)
    if what == "function":
        yield f"    {'type(c_ptr)' if result.endswith('*') else by_value(result, place)} :: given"
    yield f"end {what}"
    yield ""


def c_constants() -> Iterator[str]:
    """Yield the constants of each enum."""
    for enum in declarations(ENUM):
        yield f"! {enum.parts['name']} of {enum.place.partition(':')[0]}."
        for each in enum.parts["body"].rstrip(", \n").split(","):
            name, value = matched(r"(\w+) = (-?\d+)", each, enum.place).groups()
            yield f"integer, parameter :: {name} = {value}"
        yield ""


def c_structs() -> Iterator[str]:
    """Yield the type of each struct that C_TYPES names."""
    sizes = {each.parts["name"]: each.parts["value"] for each in declarations(SIZE)}
    for struct in declarations(STRUCT):
        name, place = struct.parts["name"], struct.place
        if name not in C_TYPES:
            continue
        yield f"! {name} of {place.partition(':')[0]}."
        yield re.sub(r"type\((\w+)\)", r"type, bind(c) :: \1", C_TYPES[name])
        for each in struct.parts["body"].strip().rstrip(";").split(";"):
            c_type, star, field, size = matched(r"(?:const )?(\w+) (\*?)(\w+)(?:\[(\w+)\])?", each, place).groups()
            extent = f"({sizes[size]})" if size else ""
            if star:
                yield f"    type(c_ptr) :: {field} = c_null_ptr"
            else:
                yield f"    {by_value(c_type, place)} :: {field}{extent} = 0"
        yield "end type"
        yield ""


def c_interfaces(callers: str) -> Iterator[str]:
    """Yield the interface of each C function that this source calls."""
    called = set(re.findall(r"\bc_(\w+)\(", callers))
    for function in declarations(FUNCTION):
        if function.parts["name"] in called:
            yield from interface(function)


# ------------------------------------------------------------------------------------------------------------- pieces

STATUS = """\
integer, intent(out), optional :: status
character(*), intent(inout), optional :: message"""
PLACE = """\
character(*), intent(in), optional :: key
integer, intent(in), optional :: item"""
TIMES = """\
integer, intent(in), optional :: to
real(real64), intent(in), optional :: timestamp, next_timestamp"""
ARRIVAL = """\
integer, intent(in), optional :: of
real(real64), intent(in), optional :: timeout
real(real64), intent(inout), optional :: timestamp, next_timestamp
logical, intent(out), optional :: ended, timed_out"""
ARRIVAL_NAMES = "of, timeout, timestamp, next_timestamp, ended, timed_out"


BY_NAME = """\
class(xmml_instance), intent(in) :: me
character(*), intent(in) :: port"""


def procedure(head: str, body: str, what: str = "subroutine") -> str:
    """Return a procedure of a module."""
    if len(head) > 110:
        first, _, rest = head.partition("(")
        head = f"{first}(&\n        {rest}"
    return f"{what} {head}\n{indent(body.strip(), '    ')}\nend {what}\n"


def unsigned_of(type_: Type) -> tuple[str, str, str]:
    """The argument `unsigned` of integer types: in a list of names, its declaration, and handed on."""
    if not type_.is_integer:
        return "", "", ""
    return "unsigned, ", "logical, intent(in), optional :: unsigned\n", ", unsigned=unsigned"


# ------------------------------------------------------------------------------------------------------------- values


def maker(type_: Type, rank: int) -> str:
    """xmml_value(data)."""
    given, declared, _ = unsigned_of(type_)
    names = (given or "").rstrip(", ")
    sign = ", unsigned" if names else ""
    target = "" if type_.is_logical else ", target"
    lines = [declared]
    if rank == 0:
        names = ", ".join(filter(None, ["data", "array", names]))
        lines += [
            f"{type_.declared}, intent(in){target} :: data",
            "logical, intent(in), optional :: array ! keep the type: an array of rank 0 instead of just a number",
            "type(xmml_value) :: value",
            "logical :: as_array",
            "as_array = .false.",
            "if (present(array)) as_array = array",
        ]
        if type_.is_integer:
            lines.append("if (present(unsigned)) as_array = as_array .or. unsigned")
    else:
        names = ", ".join(filter(None, ["data", names]))
        contiguous = "" if type_.is_logical else ", contiguous"
        lines += [
            f"{type_.declared}, intent(in){contiguous}{target} :: data{dimensions(rank)}",
            "type(xmml_value) :: value",
        ]
    if type_.is_logical:
        lines.insert(-1 if rank else -2, f"integer(int8), allocatable, target :: bytes{dimensions(rank)}")
        fill = "allocate(bytes, source=merge(1_int8, 0_int8, data))"
        array = [fill, f"value = copied({type_.dtype}, shape(data, c_size_t), c_loc(bytes))"]
    else:
        array = [f"value = copied({type_.dtype}, shape(data, c_size_t), c_loc(data){sign})"]
    if rank:
        lines += array
    else:
        number = {
            "i": "c_value_int(int(data, int64))",
            "f": "c_value_double(real(data, real64))",
            "c": "c_value_complex(real(data, real64), real(aimag(data), real64))",
            "b": "c_value_bool(merge(1_c_int, 0_c_int, data))",
        }[type_.name[0]]
        lines += [
            "if (as_array) then",
            *(f"    {line}" for line in array),
            "else",
            f"    value = owned({number})",
            "end if",
        ]
    head = f"of_{type_.name}_{rank}({names}) result(value)"
    return procedure(head, "\n".join(lines), "function")


def getter(type_: Type, rank: int) -> str:
    """value%get(data): a number, or an array that is allocated to fit."""
    given, declared, handed = unsigned_of(type_)
    head = f"get_{type_.name}_{rank}(self, data, key, item, {given}status, message)"
    attributes = ", allocatable" if rank else ""
    lines = [
        "class(xmml_value), intent(in) :: self",
        f"{type_.declared}{attributes}, intent(inout) :: data{dimensions(rank)}",
        f"{PLACE}\n{declared}{STATUS}",
    ]
    if rank:
        lines.append(from_array(type_, rank, f"spread_any({rank})", handed))
    else:
        lines.append(scalar(type_, handed))
    return procedure(head, "\n".join(lines))


def from_array(type_: Type, rank: int, wanted: str, handed: str) -> str:
    """The elements of an array to `data`."""
    element = "integer(int8)" if type_.is_logical else type_.declared
    convert = "there /= 0" if type_.is_logical else "there"
    return (
        f"type(c_array) :: array\n"
        f"{element}, pointer :: there{dimensions(rank)}\n"
        f"if (.not. self%opened({type_.dtype}, {wanted}, array, key, item{handed}, &\n"
        f"                      status=status, message=message)) return\n"
        f"call c_f_pointer(array%data, there, extents_of(array, {rank}))\n"
        f"data = {convert}"
    )


def scalar(type_: Type, handed: str) -> str:
    """A number to `data`."""
    if type_.is_integer:
        return (
            "type(c_array) :: array\n"
            f"{type_.declared}, pointer :: there\n"
            "integer(int64) :: wide\n"
            "if (present(unsigned)) then\n"
            "    if (unsigned) then\n"
            f"        if (.not. self%opened({type_.dtype}, spread_any(0), array, key, item, unsigned, &\n"
            "                              status, message)) return\n"
            "        call c_f_pointer(array%data, there)\n"
            "        data = there\n"
            "        return\n"
            "    end if\n"
            "end if\n"
            "if (.not. whole_number(self, int(bit_size(data)), wide, key, item, status, message)) return\n"
            f"data = int(wide, kind(data))"
        )
    if type_.name.startswith("f"):
        return (
            "real(real64) :: wide\n"
            "if (real_number(self, wide, key, item, status, message)) data = real(wide, kind(data))"
        )
    if type_.name.startswith("c"):
        return (
            "complex(real64) :: wide\n"
            "if (complex_number(self, wide, key, item, status, message)) data = cmplx(wide, kind=kind(data))"
        )
    return "logical :: truth\nif (truth_value(self, truth, key, item, status, message)) data = truth"


def copier(type_: Type, rank: int) -> str:
    """value%copy_to(data): into an array that is there."""
    given, declared, handed = unsigned_of(type_)
    lines = [
        "class(xmml_value), intent(in) :: self",
        f"{type_.declared}, intent(inout) :: data{dimensions(rank)}",
        f"{PLACE}\n{declared}{STATUS}",
        from_array(type_, rank, "shape(data, c_size_t)", handed),
    ]
    return procedure(f"copy_{type_.name}_{rank}(self, data, key, item, {given}status, message)", "\n".join(lines))


def viewer(type_: Type, rank: int) -> str:
    """value%view(data): a pointer to where the elements lie."""
    given, declared, handed = unsigned_of(type_)
    body = f"""\
class(xmml_value), intent(in) :: self
{type_.declared}, pointer, intent(out) :: data{dimensions(rank)}
{PLACE}
{declared}{STATUS}
type(c_array) :: array
nullify(data)
if (.not. self%opened({type_.dtype}, spread_any({rank}), array, key, item{handed}, &
                      status=status, message=message)) return
call c_f_pointer(array%data, data, extents_of(array, {rank}))"""
    return procedure(f"view_{type_.name}_{rank}(self, data, key, item, {given}status, message)", body)


#: What an attribute of an object can be read into, by type and rank; texts and bytes besides.
ATTRIBUTES = [(type_, 0) for type_ in TYPES if not type_.name.startswith("c")]
ATTRIBUTES += [(type_, 1) for type_ in TYPES if type_.name in ("i64", "f64")]


def attribute_reader(type_: Type, rank: int) -> str:
    """object%attribute(name, data): a number, or a list that is allocated to fit."""
    attributes = ", allocatable" if rank else ""
    body = f"""\
class(xmml_message), intent(in) :: self
character(*), intent(in) :: name
{type_.declared}{attributes}, intent(inout) :: data{dimensions(rank)}
logical, intent(out), optional :: found
{STATUS}
type(placed_value) :: value
if (attribute_found(self, name, value, found, status, message)) call value%get(data, status=status, message=message)"""
    return procedure(f"attribute_{type_.name}_{rank}(self, name, data, found, status, message)", body)


# ---------------------------------------------------------------------------------------------------------- instances


PARALLEL = """\
integer, intent(in), optional :: whole(:)
character(*), intent(in), optional :: gather"""


def given_as(type_: Type, rank: int) -> tuple[str, str]:
    """How data that is sent or put is declared further, and the value that is made of it for the call."""
    sign = ", unsigned" if type_.is_integer else ""
    if rank == 0:
        return "", f"xmml_value(data, array{sign})"
    if type_.is_logical:
        return "", "xmml_value(data)"
    return ", contiguous, target", f"lent({type_.dtype}, shape(data, c_size_t), c_loc(data){sign})"


def sender(type_: Type, rank: int) -> str:
    """me%send(port, data)."""
    given, declared, _ = unsigned_of(type_)
    array = "whole, gather, " if rank else "array, "
    more = "whole, gather, " if rank else ""
    attributes, value = given_as(type_, rank)
    body = f"""\
{BY_NAME}
{type_.declared}, intent(in){attributes} :: data{dimensions(rank)}
{TIMES}
{declared}{PARALLEL if rank else "logical, intent(in), optional :: array"}
{STATUS}
call send_and_free(me%pointer, c_string(port), {value}, &
                   to, timestamp, next_timestamp, {more}status=status, message=message)"""
    head = f"send_{type_.name}_{rank}(me, port, data, to, timestamp, next_timestamp, {array}{given}status, message)"
    return procedure(head, re.sub(r"\n+", "\n", body))


def putter(type_: Type, rank: int) -> str:
    """me%put(port, data, attributes)."""
    given, declared, _ = unsigned_of(type_)
    more, value = given_as(type_, rank)
    body = f"""\
{BY_NAME}
{type_.declared}, intent(in){more} :: data{dimensions(rank)}
character(*), intent(in), optional :: attributes
integer, intent(out), optional :: readers
{declared}{"integer, intent(in), optional :: whole(:)" if rank else "logical, intent(in), optional :: array"}
{STATUS}
call put_and_free(me%pointer, c_string(port), {value}, &
                  attributes, readers, {"whole, " if rank else ""}status=status, message=message)"""
    array = "whole, " if rank else "array, "
    head = f"put_{type_.name}_{rank}(me, port, data, attributes, readers, {array}{given}status, message)"
    return procedure(head, re.sub(r"\n+", "\n", body))


def receiver(type_: Type, rank: int, *, into: bool = False) -> str:
    """me%receive(port, data), allocated to fit; me%receive_into(port, data), an array that is there."""
    given, declared, handed = unsigned_of(type_)
    name, read = ("into", "copy_to") if into else ("receive", "get")
    attributes = ", allocatable" if rank and not into else ""
    body = f"""\
{BY_NAME}
{type_.declared}{attributes}, intent(inout) :: data{dimensions(rank)}
{ARRIVAL}
{declared}{STATUS}
type(xmml_message) :: taken
if (.not. arrived(me%pointer, c_string(port), me%place(port), &
                  taken, {ARRIVAL_NAMES}, status, message)) return
call taken%{read}(data{handed}, status=status, message=message)
call taken%free()"""
    return procedure(f"{name}_{type_.name}_{rank}(me, port, data, {ARRIVAL_NAMES}, {given}status, message)", body)


def lender(type_: Type, rank: int) -> str:
    """me%loan(data, shape): memory to be filled and sent."""
    given, declared, _ = unsigned_of(type_)
    dtype = f"signedness({type_.dtype}, unsigned)" if given else type_.dtype
    body = f"""\
class(xmml_instance), intent(in) :: me
{type_.declared}, pointer, contiguous, intent(out) :: data{dimensions(rank)}
integer, intent(in) :: shape({rank})
{declared}{STATUS}
type(c_ptr) :: memory
nullify(data)
if (lends(me, {dtype}, shape, memory, status, message)) call c_f_pointer(memory, data, shape)"""
    return procedure(f"loan_{type_.name}_{rank}(me, data, shape, {given}status, message)", body)


def returner(type_: Type, rank: int) -> str:
    """me%give_back(data): a loan that is not going to be sent."""
    body = f"""\
class(xmml_instance), intent(in) :: me
{type_.declared}, pointer, contiguous, intent(inout) :: data{dimensions(rank)}
{STATUS}
call conclude(c_give_back(me%pointer, c_loc(data)), status, message)
nullify(data)"""
    return procedure(f"return_{type_.name}_{rank}(me, data, status, message)", body)


# --------------------------------------------------------------------------------------------------------- bound ports

#: The procedures by hand that take the name of a port, by the type that has their twins for a port that was looked up.
BY_HAND = {
    "bound_port": ("connected", "copies", "methods", "set_methods", "instance_block"),
    "xmml_out_port": (
        *("skip", "open_handle", "close_handles", "output"),
        *("send_value", "send_nothing", "send_bytes", "send_text"),
        *("put_value", "put_nothing", "put_bytes", "put_text"),
        *("wanted", "group_begin", "group_end", "group_abandon", "port_end"),
    ),
    "xmml_in_port": (
        *("port_handle", "has_message", "receive_message", "receive_bytes", "receive_text", "into_text"),
        "take",
    ),
}


def twin(text: str, port_type: str) -> str:
    """Return what a procedure is that takes an instance and the name of a port, for a port that was looked up.

    Raises:
        HeaderError: something of it is not known to this function.
    """
    for old, new in (
        (r"^( *(?:logical |integer )?(?:subroutine|function) )(\w+\((?:&\n *)?)me, port(?:, )?", r"\1bound_\2self, "),
        (r"((?:logical|integer) function bound_(\w+)\([^)]*\))", r"\1 result(\2)"),
        (r"class\(xmml_instance\), intent\(in\) :: me$", f"class({port_type}), intent(in) :: self"),
        (r"^ *character\(\*\), intent\(in\) :: port\n", ""),
        (r"(character\(\*\), intent\(in\) :: )port, ", r"\1"),
        (r"me%pointer, c_string\(port\)", "self%pointer, self%bound"),
        (r"me%place\(port\)", "self%place"),
    ):
        text = re.sub(old, new, text, flags=re.MULTILINE)
    if left := re.findall(r"^[^!\n]*\b(?:me|port)\b.*$", text, re.MULTILINE):
        raise HeaderError(f"a bound port cannot have this: {left[0].strip()}")
    return text


def by_hand(name: str, sources: str) -> str:
    """Return a procedure that is written by hand."""
    pattern = rf"^    (?:logical |integer )?(subroutine|function) {name}\(.*?^    end \1\n"
    found = re.search(pattern, sources, re.MULTILINE | re.DOTALL)
    if not found:
        raise HeaderError(f"there is no procedure {name}")
    return dedent(found[0])


# ----------------------------------------------------------------------------------------------------------- the file


def bindings(generic: str, prefix: str, ranks: range, types: list[Type], *more: str) -> Iterator[str]:
    """Bind the procedures of all types and ranks, and `more`, to one generic name of a type."""
    for type_ in types:
        names = ", ".join(f"{prefix}_{type_.name}_{rank}" for rank in ranks)
        yield f"procedure, private :: {names}"
        yield f"generic :: {generic} => {names}"
    for name in more:
        yield f"procedure, private :: {name}"
        yield f"generic :: {generic} => {name}"


def attribute_bindings() -> Iterator[str]:
    """Bind what reads an attribute to the one generic name of an object."""
    for name in ("attribute_text", *(f"attribute_{type_.name}_{rank}" for type_, rank in ATTRIBUTES)):
        yield f"procedure, private :: {name}"
        yield f"generic :: attribute => {name}"


def wrapped(lines: Iterator[str]) -> str:
    """Continue lines that are too long."""
    return "\n".join(line if len(line) <= 110 else re.sub(r"((?:[^,]+,){4})", r"\1 &\n       ", line) for line in lines)


def parts() -> dict[str, str]:
    """What replaces each @name@ in the modules."""
    sources = [path.read_text() for path in sorted(HERE.glob("*.f90"))]
    arrays = RANKS[1:]
    seen = [type_ for type_ in TYPES if type_.name != "bool"]  # a default logical is not laid out as in a message
    every = [(type_, rank) for type_ in TYPES for rank in RANKS]
    no_scalars = [(type_, rank) for type_, rank in every if rank]
    values = [maker(*each) for each in every] + [getter(*each) for each in every]
    values += [copier(*each) for each in no_scalars]
    values += [viewer(type_, rank) for type_ in seen for rank in arrays]
    values += [attribute_reader(*each) for each in ATTRIBUTES]
    instances = [make(*each) for make in (sender, receiver, putter) for each in every]
    instances += [receiver(*each, into=True) for each in no_scalars]
    instances += [make(type_, rank) for make in (lender, returner) for type_ in seen for rank in arrays]
    twins = [twin(by_hand(name, "\n".join(sources)), kind) for kind, names in BY_HAND.items() for name in names]
    twins += [twin(make(*each), "xmml_out_port") for make in (sender, putter) for each in every]
    twins += [twin(receiver(*each), "xmml_in_port") for each in every]
    twins += [twin(receiver(*each, into=True), "xmml_in_port") for each in no_scalars]
    makers = (f"procedure :: {', '.join(f'of_{type_.name}_{rank}' for rank in RANKS)}" for type_ in TYPES)
    constants = re.findall(r"parameter :: (XMML_\w+)", "\n".join(c_constants()))
    return {
        "c_constants": indent("\n".join(c_constants()), "    "),
        "c_structs": indent("\n".join(c_structs()), "    "),
        "c_interfaces": indent("\n".join(c_interfaces("\n".join([*sources, *values, *instances]))), " " * 8),
        "constants": " &\n        ".join(re.findall(r"(?:\w+, ){1,4}", ", ".join(constants) + ", ")).rstrip(", "),
        "value_makers": indent(wrapped(iter([*makers, "procedure :: of_text"])), " " * 8),
        "value_bindings": indent(
            wrapped(
                line
                for lines in (
                    bindings("get", "get", RANKS, TYPES, "get_text"),
                    bindings("copy_to", "copy", arrays, TYPES, "copy_text"),
                    bindings("view", "view", arrays, seen),
                )
                for line in lines
            ),
            " " * 8,
        ),
        "attribute_bindings": indent(wrapped(attribute_bindings()), " " * 8),
        "value_procedures": indent("\n".join(values), "    "),
        "instance_bindings": indent(
            wrapped(
                line
                for lines in (
                    bindings("send", "send", RANKS, TYPES, "send_text"),
                    bindings("receive", "receive", RANKS, TYPES, "receive_text"),
                    bindings("receive_into", "into", arrays, TYPES, "into_text"),
                    bindings("put", "put", RANKS, TYPES, "put_text"),
                    bindings("loan", "loan", arrays, seen),
                    bindings("give_back", "return", arrays, seen),
                )
                for line in lines
            ),
            " " * 8,
        ),
        "out_port_bindings": indent(
            wrapped(
                line
                for lines in (
                    bindings("send", "bound_send", RANKS, TYPES, "bound_send_text"),
                    bindings("put", "bound_put", RANKS, TYPES, "bound_put_text"),
                )
                for line in lines
            ),
            " " * 8,
        ),
        "in_port_bindings": indent(
            wrapped(
                line
                for lines in (
                    bindings("receive", "bound_receive", RANKS, TYPES, "bound_receive_text"),
                    bindings("receive_into", "bound_into", arrays, TYPES, "bound_into_text"),
                )
                for line in lines
            ),
            " " * 8,
        ),
        "bound_procedures": indent("\n".join(twins), "    "),
        "instance_procedures": indent("\n".join(instances), "    "),
    }


def source() -> str:
    """Return the text of xmml.f90."""
    replacements = parts()

    def part(found: re.Match[str]) -> str:
        name = found[1]
        return replacements[name] if name in replacements else filled((HERE / f"{name}.f90").read_text().rstrip("\n"))

    def filled(text: str) -> str:
        text = re.sub(r"^ *@(\w+)@$", part, text, flags=re.MULTILINE)
        return re.sub(r"@(\w+)@", part, text)

    modules = filled("\n".join((HERE / f"{module}.f90").read_text() for module in MODULES))
    head = "! Made by native/fortran/generate.py: change that or the files beside it.\n"
    return head + re.sub(r" +$", "", modules, flags=re.MULTILINE)


if __name__ == "__main__":
    sys.stdout.write(source())
