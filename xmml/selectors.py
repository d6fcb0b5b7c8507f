"""Attributes of objects, and selectors over them, as the core reads them: the same code compiles them when a model is
checked and while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from xmml.model import Datatype, Instance

if TYPE_CHECKING:
    from xmml_native.selectors import AttributeSchema, Selector

#: What a selector can name besides the parameters of its reader.
READER_VARIABLES = ("index", "count")


class SelectorError(ValueError):
    """A text that is no declaration of attributes, or no selector of them.

    Attributes:
        first, end: the characters of the text that are wrong: the first, and the one behind the last.
    """

    def __init__(self, problem: str, first: int, end: int) -> None:
        super().__init__(problem)
        self.first, self.end = first, end


@contextmanager
def _placed() -> Iterator[None]:
    """Raise what the core says of a text, with its place."""
    try:
        yield
    except ValueError as error:
        raise SelectorError(*error.args) from None


@lru_cache(maxsize=256)
def schema(attributes: str) -> AttributeSchema:
    """Return the attributes that a text declares, as in `run:attributes`.

    Raises:
        SelectorError: it declares none.
    """
    from xmml_native.selectors import AttributeSchema

    with _placed():
        return AttributeSchema(attributes)


def variables(select: str) -> list[str]:
    """Return the names behind a `$` in a selector.

    Raises:
        SelectorError: it has characters or words that no selector has.
    """
    from xmml_native.selectors import selector_variables

    with _placed():
        return selector_variables(select)


def compiled(select: str, attributes: AttributeSchema, values: Mapping[str, str]) -> Selector:
    """Return a selector, with these values for its variables.

    Raises:
        SelectorError: it is none, or not one of these attributes.
    """
    from xmml_native.selectors import Selector

    with _placed():
        return Selector(select, attributes, values)


def values_of(select: str, reader: Instance, copy: int) -> dict[str, str]:
    """Return what the variables of a selector stand for at one copy of its reader, as far as the reader has them.

    Raises:
        SelectorError: as `variables`.
    """
    count = reader.multiplicity if isinstance(reader.multiplicity, int) else 1
    known = {
        **reader.params,
        **reader.copy_params.get(copy, {}),
        "index": str(copy),
        "count": str(count),
    }
    return {name: known[name] for name in variables(select) if name in known}


def attributes_of(datatypes: Mapping[str, Datatype], name: str | None) -> str:
    """Return the declarations of all attributes of a datatype: those of what it extends come first."""
    found: list[str] = []
    seen: set[str] = set()
    while name is not None and name in datatypes and name not in seen:
        seen.add(name)
        datatype = datatypes[name]
        if datatype.attributes is not None and datatype.attributes.strip():
            found.insert(0, datatype.attributes.strip())
        name = datatype.extends
    return " ".join(found)
