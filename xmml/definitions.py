"""From the elements of `definitions` to definitions: datatypes, filters, terminals, mappers, submodels.

Reading is forgiving: what cannot be understood is left out, and the checks (`xmml.checks`) say why.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from xmml.model import (
    Code,
    Datatype,
    Definition,
    Filter,
    Implementation,
    Interpreter,
    Kind,
    Library,
    Platform,
    Port,
    read_only,
)
from xmml.positions import Position
from xmml.run_options import run_options, settings_of
from xmml.scales import Range, Scale, ScaleKind, name_unnamed
from xmml.tree import RUN, Element
from xmml.units import Dimension, Quantity, UnitError, parse

#: The elements that make instances.
KINDS: tuple[Kind, ...] = ("submodel", "mapper", "terminal")

#: What delta and total of each kind of scale measure; `None`: anything.
SCALE_DIMENSIONS: Mapping[str, Dimension | None] = {"time": Dimension.TIME, "space": Dimension.SPACE, "other": None}


def quantity(element: Element, attribute: str, dimension: Dimension | None) -> Quantity | None:
    """Return the quantity in an attribute; `None` if it is absent, not readable or of another dimension."""
    text = element.get(attribute)
    if text is None:
        return None
    try:
        return parse(text, dimension)
    except UnitError:
        return None


def _number(element: Element, attribute: str, dimension: Dimension) -> float | None:
    found = quantity(element, attribute, dimension)
    return None if found is None else float(found)


def positive_integer(text: str | None) -> int | None:
    """Return the positive integer that a text stands for, or `None`."""
    found = re.fullmatch(r"\s*\+?0*([0-9]{1,9})\s*", text) if text is not None else None
    return int(found[1]) or None if found is not None else None


def choice(text: str | None, known: Collection[str], default: str) -> Any:
    """Return the text if it is one of the known words, else the default."""
    return text if text is not None and text in known else default


_OPTIONAL = ("yes", "no", "optional")


def read_params(element: Element) -> Mapping[str, str]:
    """Return the parameters that stand directly in an element."""
    params: dict[str, str] = {}
    for param in element.named("param"):
        name, value = param.get("id"), param.get("value")
        if name is not None and value is not None:
            params.setdefault(name, value)
    return read_only(params)


def read_scales(owner: Element, kind: ScaleKind, names: bool = True) -> list[Scale]:
    """Return the scales of one kind in a submodel or instance.

    Unnamed scales get the ids of the definition's rules, or the empty id with `names=False` (an instance's unnamed
    scales are matched by place).
    """
    elements = owner.named(f"{kind}scale")
    ids: list[str] = [element.get("id") or "" for element in elements]
    if names:
        taken = {id_ for scale in owner.named("timescale", "spacescale", "otherscale") if (id_ := scale.get("id"))}
        ids = name_unnamed(kind, [id_ or None for id_ in ids], taken)
    dimension = SCALE_DIMENSIONS[kind]
    return [
        Scale(
            id=id_,
            kind=kind,
            delta=read_range(element, "delta", dimension),
            total=read_range(element, "total", dimension),
            characteristic=quantity(element, "characteristic", dimension),
            dimensions=positive_integer(element.get("dimensions")),
            type=element.get("type"),
        )
        for element, id_ in zip(elements, ids, strict=True)
    ]


def read_range(scale: Element, name: str, dimension: Dimension | None) -> Range | None:
    """Return delta or total of a scale: a regular value from the attribute, else a range from the child element."""
    regular = quantity(scale, name, dimension)
    if regular is not None:
        return Range.of(regular)
    element = scale.first(name)
    if element is None:
        return None
    low, high = quantity(element, "min", dimension), quantity(element, "max", dimension)
    if low is not None and high is not None and low.dimension is not high.dimension:
        high = None
    return Range(low, high, element.get("type") == "fixed")


def read_ports(definition: Element) -> Mapping[str, Port]:
    """Return the ports of a submodel, mapper or terminal."""
    ports: dict[str, Port] = {}
    for group in definition.named("ports"):
        for element in group.named("in", "out"):
            name = element.get("id")
            if name is None or name in ports:
                continue
            ports[name] = Port(
                id=name,
                direction="in" if element.name == "in" else "out",
                operator=choice(element.get("operator"), ("finit", "Oi", "S", "B", "Of"), cast(str, None)),
                datatype=element.get("datatype"),
                type=choice(element.get("type"), ("state", "normal"), "normal"),
                decomposition=settings_of(element).get("decomp", ()),
                open=settings_of(element).get("open", False),
                position=element.position,
            )
    return read_only(ports)


def read_implementation(definition: Element) -> Implementation | None:
    """Return the implementation of a definition, or `None`."""
    element = definition.first("implementation")
    if element is None:
        return None
    return Implementation(
        path=element.get("path"),
        language=element.get("language"),
        cores=positive_integer(element.get("cores")),
        memory_bytes=_number(element, "memory", Dimension.DATA),
        runtime_s=_number(element, "runtime", Dimension.TIME),
        size_bytes=_number(element, "size", Dimension.DATA),
        interpreters=tuple(
            Interpreter(each.get("name"), each.get("path"), each.get("version"), each.get("flags"))
            for each in element.named("interpreter")
        ),
        platforms=tuple(
            Platform(each.get("os") or "", each.get("arch"), each.get("preferred") == "yes")
            for each in element.named("platform")
        ),
        libraries=tuple(Library(each.get("name") or "", each.get("path")) for each in element.named("library")),
        codes=tuple(_code(each) for each in element.named("code")),
        run=run_options(element),
        position=element.position,
    )


def _code(element: Element) -> Code:
    return Code(
        language=element.get("language") or "",
        text=content(element),
        part=element.get("part"),
        version=element.get("version"),
        compiler=element.get("compiler"),
        compilerflags=element.get("compilerflags"),
        position=content_position(element),
    )


def content(element: Element) -> str:
    """Return all character data in an element, at whatever depth."""
    return "".join(_all_text(element))


def _all_text(element: Element) -> Iterable[str]:
    for part in element.content:
        if isinstance(part, str):
            yield part
        else:
            yield from _all_text(part)


_START_TAG = re.compile(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>(?:<!\[CDATA\[)?""")


def content_position(element: Element) -> Position:
    """Return where the text of an element begins: behind its start tag and the opening of a CDATA section."""
    tag = _START_TAG.match(element.source.text, element.offset)
    return element.source.position(tag.end()) if tag else element.position


def description_of(element: Element) -> str:
    """Return the text of an element's description, with white space made single blanks."""
    found = element.first("description")
    return " ".join(content(found).split()) if found is not None else ""


def read_datatypes(definitions: Element) -> Mapping[str, Datatype]:
    """Return the datatypes by id."""
    datatypes: dict[str, Datatype] = {}
    for element in definitions.named("datatype"):
        if name := element.get("id"):
            datatypes.setdefault(
                name,
                Datatype(
                    id=name,
                    class_=element.get("class"),
                    version=element.get("version"),
                    size_estimate=element.get("size_estimate"),
                    extends=element.get("extends"),
                    attributes=element.get("attributes", RUN),
                    position=element.position,
                ),
            )
    return read_only(datatypes)


def read_filters(definitions: Element) -> Mapping[str, Filter]:
    """Return the filters by id."""
    filters: dict[str, Filter] = {}
    for element in definitions.named("filter"):
        if name := element.get("id"):
            filters.setdefault(
                name,
                Filter(
                    id=name,
                    type=choice(element.get("type"), ("interpolation", "reduction", "converter"), "converter"),
                    class_=element.get("class"),
                    version=element.get("version"),
                    datatype_in=element.get("datatype_in"),
                    datatype_out=element.get("datatype_out"),
                    dimension=element.get("dimension"),
                    factor=element.get("factor"),
                    params=read_params(element),
                    implementation=read_implementation(element),
                    description=description_of(element),
                    position=element.position,
                ),
            )
    return read_only(filters)


def read_definitions(definitions: Element) -> Mapping[tuple[str, str], Definition]:
    """Return the submodels, mappers and terminals by kind and id: definitions of two kinds may share an id."""
    found: dict[tuple[str, str], Definition] = {}
    for element in definitions.named(*KINDS):
        if name := element.get("id"):
            found.setdefault((element.name, name), _definition(element, name))
    return read_only(found)


def definition_elements(definitions: Element) -> Mapping[tuple[str, str], Element]:
    """Return the elements of `read_definitions`."""
    found: dict[tuple[str, str], Element] = {}
    for element in definitions.named(*KINDS):
        if name := element.get("id"):
            found.setdefault((element.name, name), element)
    return read_only(found)


def _definition(element: Element, name: str) -> Definition:
    times = read_scales(element, "time")
    return Definition(
        id=name,
        kind=cast(Kind, element.name),
        class_=element.get("class"),
        type=element.get("type"),
        name=element.get("name"),
        version=element.get("version"),
        description=description_of(element),
        init=element.get("init") == "yes",
        stateful=choice(element.get("stateful"), _OPTIONAL, "no"),
        interactive=choice(element.get("interactive"), _OPTIONAL, "no"),
        timescale=times[0] if times else None,
        spacescales=tuple(read_scales(element, "space")),
        otherscales=tuple(read_scales(element, "other")),
        ports=read_ports(element),
        params=read_params(element),
        implementation=read_implementation(element),
        position=element.position,
    )
