"""The elements of an XML document with their positions, read with expat: no network, no external files, no bombs.

The tree is built here and not by lxml because every message of a check names line and column of an element or
attribute, which libxml2 does not keep. What stands where is checked on it directly (see `xmml.validation`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from xml.parsers import expat

from xmml.positions import Mark, Position, Source
from xmml.problems import ModelError, Problem, Severity

#: Largest document that is read, in bytes: far above any model written by hand or by a tool.
MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
#: Deepest nesting of elements; xMML itself needs seven.
MAX_DEPTH = 64
#: Most elements of a document.
MAX_ELEMENTS = 1_000_000
#: Most attributes of one element; xMML itself needs nine.
MAX_ATTRIBUTES = 1000
#: How many characters entities may add to a document.
MAX_EXPANSION = 100_000

XMML = "http://www.mapper-project.eu/xmml"
XMML_PARAM = "http://www.mapper-project.eu/xmml/param"
RUN = "urn:xmml:run:1"
MAD = "http://www.mapper-project.eu/mad"
XINCLUDE = "http://www.w3.org/2001/XInclude"
XML = "http://www.w3.org/XML/1998/namespace"


class Attribute(NamedTuple):
    """One attribute; its namespace is "" for none."""

    namespace: str
    name: str
    prefix: str
    value: str

    @property
    def qualified(self) -> str:
        """Its name as it is written, with the prefix."""
        return f"{self.prefix}:{self.name}" if self.prefix else self.name


@dataclass(eq=False, slots=True)
class Element:
    """One element; nobody changes it once its document is read."""

    source: Source
    offset: int
    namespace: str
    name: str
    prefix: str
    attributes: tuple[Attribute, ...]
    content: list[Element | str] = field(default_factory=list)
    namespaces: dict[str, str] = field(default_factory=dict)
    _plain: dict[str, str] | None = field(default=None, init=False, repr=False)

    def get(self, name: str, namespace: str = "") -> str | None:
        """Return the value of an attribute, or `None`."""
        if namespace:
            attribute = self.attribute(name, namespace)
            return None if attribute is None else attribute.value
        plain = self._plain
        return (self.plain if plain is None else plain).get(name)

    @property
    def plain(self) -> dict[str, str]:
        """The attributes in no namespace."""
        if self._plain is None:
            self._plain = {each.name: each.value for each in self.attributes if not each.namespace}
        return self._plain

    @property
    def is_plain(self) -> bool:
        """Whether all attributes are in no namespace."""
        return len(self.plain) == len(self.attributes)

    def attribute(self, name: str, namespace: str = "") -> Attribute | None:
        """Return an attribute, or `None`."""
        for attribute in self.attributes:
            if attribute.name == name and attribute.namespace == namespace:
                return attribute
        return None

    @property
    def children(self) -> list[Element]:
        """The child elements."""
        return [child for child in self.content if isinstance(child, Element)] if self.content else []

    def named(self, *names: str) -> list[Element]:
        """Return the child elements of this element's own namespace that have one of the names."""
        if not self.content:
            return []
        own = self.namespace
        return [
            child
            for child in self.content
            if isinstance(child, Element) and child.name in names and child.namespace == own
        ]

    def first(self, name: str) -> Element | None:
        """Return the first child element of that name, or `None`."""
        found = self.named(name)
        return found[0] if found else None

    def text(self) -> str:
        """Return the character data directly in this element."""
        return "".join(part for part in self.content if isinstance(part, str))

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def position(self) -> Position:
        """Where the start tag begins."""
        return self.source.position(self.offset)

    def mark(self, attribute: str | None = None, note: str = "", namespace: str = "") -> Mark:
        """Return the mark for an attribute's name, or for the element's name."""
        found = self.attribute(attribute, namespace) if attribute else None
        place = _attribute_place(self.source.text, self.offset, found.qualified) if found else None
        if found is not None and place is not None:
            return Mark(self.source.position(place), len(found.qualified), note)
        qualified = f"{self.prefix}:{self.name}" if self.prefix else self.name
        return Mark(self.position, len(qualified) + 1, note)

    def mark_within(self, attribute: str, first: int, end: int, namespace: str = "") -> Mark | None:
        """Return the mark for the characters `first` to `end` (not included) of an attribute's value.

        `None`: the value is not written there as it is read, or only in a document that declares it.
        """
        found = self.attribute(attribute, namespace)
        place = _attribute_place(self.source.text, self.offset, found.qualified) if found else None
        value = _NEXT_VALUE.match(self.source.text, place + len(found.qualified)) if found and place else None
        if value is None:
            return None
        starts = [piece.start() + value.start(1) + 1 for piece in _CHARACTER.finditer(value.group(1)[1:-1])]
        starts.append(value.end(1) - 1)
        if found is None or len(starts) != len(found.value) + 1:
            return None
        start = self.source.position(starts[first])
        rest_of_line = self.source.text[starts[first] : max(starts[end], starts[first] + 1)].partition("\n")[0]
        return Mark(start, max(1, len(rest_of_line)))

    def problem(
        self,
        code: str,
        message: str,
        help: str = "",
        attribute: str | None = None,
        namespace: str = "",
        note: str = "",
        whole: bool = False,
        within: tuple[int, int] | None = None,
    ) -> Problem:
        """Return a problem about this element or one of its attributes.

        The position is that of the attribute if one is named, or that of the characters of its value that are wrong
        (`within`: the first, and the one behind the last); with `whole` it is the element's, and only the carets
        point at the attribute: the element as a whole is wrong.
        """
        mark = self.mark_within(attribute, *within, namespace) if within is not None and attribute else None
        mark = mark or self.mark(attribute, _shortened(note), namespace)
        quote, quote_column = self.source.quote(mark)
        return Problem(
            severity=Severity.WARNING if code.startswith("W") else Severity.ERROR,
            code=code,
            message=_shortened(message),
            position=self.position if whole else mark.position,
            quote=quote,
            quote_column=quote_column,
            mark=mark,
            help=_shortened(help),
        )


def unreadable(
    file: str, message: str, help: str = "", source: Source | None = None, place: Position | None = None
) -> Problem:
    """Return the problem of a file that cannot be read as XML."""
    position = place or Position(file, 1, 1)
    quote, column = source.quote(Mark(position)) if source and place else ("", 1)
    return Problem(Severity.ERROR, "E01", message, position, quote, Mark(position) if quote else None, help, column)


def _shortened(text: str) -> str:
    """Return the text without its middle if a document put something endless into it."""
    return text if len(text) <= 600 else f"{text[:400]} ... {text[-150:]}"


_DECLARED_ENCODING = re.compile(rb"""^<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]*)["']""")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Encodings a document may declare; Python knows many more, some of which are no encodings of text.
_ENCODINGS = re.compile(
    r"(?i)^(utf-?8|utf-?16(-?(le|be))?|us-ascii|ascii|iso-?8859-?\d{1,2}|latin-?1|windows-125\d|cp125\d)$"
)


def decode(data: bytes, file: str) -> str:
    """Return the text of an XML file by its byte order mark or declared encoding.

    Raises:
        ModelError: the file is too large, of an unknown encoding, or not text of the encoding it declares.
    """
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ModelError([unreadable(file, f"the document is larger than {MAX_DOCUMENT_BYTES // 2**20} MiB")])
    encoding = "utf-8"
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    else:
        declared = _DECLARED_ENCODING.match(data)
        if declared:
            encoding = declared.group(1).decode("ascii")
    if not _ENCODINGS.match(encoding):
        raise ModelError([unreadable(file, f'the encoding "{encoding}" is not supported', "save the file as UTF-8")])
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        why = f"byte {error.start}" if isinstance(error, UnicodeDecodeError) else "it"
        raise ModelError(
            [unreadable(file, f"the file is not {encoding} text ({why} cannot be decoded)", "save the file as UTF-8")]
        ) from None


class _Refused(Exception):
    """Stops expat: what the document asks for is not allowed."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


_START_TAG = re.compile(r"<([^\s/>]+)")
_NEXT_ATTRIBUTE = re.compile(r"""\s+([^\s=/>]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
#: What stands behind the name of an attribute, and one character of its value as it is written.
_NEXT_VALUE = re.compile(r"""\s*=\s*("[^"]*"|'[^']*')""")
_CHARACTER = re.compile(r"&[^;&]{1,40};|\r\n|.", re.DOTALL)


def _attribute_place(text: str, offset: int, qualified: str) -> int | None:
    """Return where the name of an attribute of the start tag at `offset` stands; `None` if it is not written there."""
    tag = _START_TAG.match(text, offset)
    at = tag.end() if tag else None
    while at is not None and (found := _NEXT_ATTRIBUTE.match(text, at)):
        if found.group(1) == qualified:
            return found.start(1)
        at = found.end()
    return None


_PLAIN = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_HOST = rf"(?:(?:{_PLAIN}|:)*@)?(?:{_PLAIN}*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?=[/?#]|$)"
_REST = rf"(?:{_PLAIN}|[:@/])*(?:\?(?:{_PLAIN}|[:@/?])*)?(?:#(?:{_PLAIN}|[:@/?\[\]])*)?"
#: What a namespace can be (RFC 3986); others could not be written again.
_URI = re.compile(rf"(?:[A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))(?://{_HOST}|(?!//)){_REST}")
_NAMESPACES = 'write xmlns="http://www.mapper-project.eu/xmml" and xmlns:run="urn:xmml:run:1" on the root element'

#: Stands between namespace, name and prefix in the names that expat gives; no XML document can hold it.
_SEPARATOR = "\x01"


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.root: Element | None = None
        self.open: list[Element] = []
        self.text: list[str] = []
        self.characters = 0
        self.elements = 0
        self.new_namespaces: dict[str, str] = {}
        self.parser = parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        parser.namespace_prefixes = True
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartNamespaceDeclHandler = self.start_namespace
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.character_data
        parser.ExternalEntityRefHandler = self.external_entity
        parser.SkippedEntityHandler = self.skipped_entity

    def start_namespace(self, prefix: str | None, uri: str | None) -> None:
        if uri and not _URI.fullmatch(uri):
            what = f"prefix {prefix}" if prefix else "default namespace"
            raise _Refused(f'the {what} stands for "{_shortened(uri)}", which is no URI', _NAMESPACES)
        self.new_namespaces[prefix or ""] = uri or ""

    def start(self, name: str, pairs: list[str]) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise _Refused(f"elements are nested more than {MAX_DEPTH} deep")
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise _Refused(f"the document has more than {MAX_ELEMENTS} elements")
        if len(pairs) > 2 * MAX_ATTRIBUTES:
            raise _Refused(f"an element has more than {MAX_ATTRIBUTES} attributes")
        if self.text:
            self.flush()
        line, column = self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1
        offset = min(self.source.offset(line, column), len(self.source.text))
        attributes = tuple(
            [Attribute(*_split_name(key), value) for key, value in zip(pairs[::2], pairs[1::2], strict=True)]
        )
        namespace, local, prefix = _split_name(name)
        self.count(len(local) + 1 + sum(map(len, pairs[1::2])))
        element = Element(self.source, offset, namespace, local, prefix, attributes, [], self.new_namespaces)
        self.new_namespaces = {}
        if self.open:
            self.open[-1].content.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, name: str) -> None:
        if self.text:
            self.flush()
        self.open.pop()

    def character_data(self, text: str) -> None:
        self.count(len(text))
        self.text.append(text)

    def flush(self) -> None:
        if self.text and self.open:
            self.open[-1].content.append("".join(self.text))
        self.text.clear()

    def count(self, characters: int) -> None:
        self.characters += characters
        if self.characters > len(self.source.text) + MAX_EXPANSION:
            raise _Refused("entities blow this document up beyond its own size", "write the text out, without entities")

    def external_entity(self, *_: object) -> int:
        raise _Refused(
            "the document refers to an external entity, which is never loaded", "use xi:include for local files"
        )

    def skipped_entity(self, name: str, is_parameter_entity: bool) -> None:
        if not is_parameter_entity:
            raise _Refused(f"the entity &{name}; is not declared in this document")


@lru_cache(maxsize=1024)
def _split_name(key: str) -> tuple[str, str, str]:
    parts = key.split(_SEPARATOR)
    if len(parts) == 1:
        return "", parts[0], ""
    return parts[0], parts[1], parts[2] if len(parts) > 2 else ""


#: What to do about the findings of expat that people meet most.
_MENDING = {
    "unbound prefix": 'declare the prefix on the root element, such as xmlns:run="urn:xmml:run:1"',
    "not well-formed (invalid token)": 'write &amp; for & and &lt; for <, and put attribute values into "quotes"',
    "duplicate attribute": "an attribute may stand once; remove one of them",
    "junk after document element": "a document has one root element",
}


_UNQUOTED = re.compile(r"([^\s<=\"']+)\s*=\s*$")
_UNQUOTED_VALUE = re.compile(r"[^\s<>\"'=&]*[^\s<>\"'=&/]")


def _how_to_mend(what: str, open_elements: list[Element], source: Source, offset: int) -> str:
    if what in ("mismatched tag", "no element found", "unclosed token") and open_elements:
        last = open_elements[-1]
        name = f"{last.prefix}:{last.name}" if last.prefix else last.name
        empty = "" if last.children else ", or end its tag with />"
        return f"<{name}> in line {source.position(last.offset).line} is still open: close it with </{name}>{empty}"
    if what == "not well-formed (invalid token)" and _is_double_dash(source.text, offset):
        return "-- may not stand in a comment: write a single -"
    unquoted = _UNQUOTED.search(source.text[max(0, offset - 200) : offset])
    if what == "not well-formed (invalid token)" and unquoted:
        value = _UNQUOTED_VALUE.match(source.text, offset)
        shown = f'{unquoted.group(1)}="{value.group(0) if value else "..."}"'
        return f"values of attributes stand in quotes: {shown}"
    return _MENDING.get(what, "")


def _is_double_dash(text: str, offset: int) -> bool:
    """Say whether a place is behind the -- of a comment that goes on there."""
    start = text.rfind("<!--", 0, offset - 2)
    return start >= 0 and text.startswith("--", offset - 2) and "-->" not in text[start + 4 : offset]


def parse(text: str, file: str) -> Element:
    """Return the root element of an XML text.

    Raises:
        ModelError: not well-formed, or beyond a bound (size, depth, entities).
    """
    source = Source(file, text)
    builder = _Builder(source)
    parser = builder.parser
    try:
        parser.Parse(text, True)  # as str: expat then ignores the declared encoding, which `decode` has dealt with
    except expat.ExpatError as error:
        place = Position(file, error.lineno, error.offset + 1)
        what = expat.errors.messages[error.code] if error.code in expat.errors.messages else str(error)
        offset = min(source.offset(place.line, place.column), len(text))
        help = _how_to_mend(what, builder.open, source, offset)
        told = what.removeprefix("not well-formed (").removesuffix(")") if what.startswith("not well-formed") else what
        raise ModelError([unreadable(file, f"not well-formed XML: {told}", help, source, place)]) from None
    except _Refused as refusal:
        place = Position(file, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        raise ModelError([unreadable(file, str(refusal), refusal.help, source, place)]) from None
    except UnicodeEncodeError:
        raise ModelError([unreadable(file, "the text holds characters that XML does not allow")]) from None
    if builder.root is None:
        raise ModelError([unreadable(file, "the document is empty")])
    return builder.root
