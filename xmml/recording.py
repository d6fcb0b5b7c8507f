"""Records from the start of a run: an archive that keeps what passes out ports, as if the model had it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from xml.sax.saxutils import quoteattr

from xmml.document import Document
from xmml.model import Definition, Endpoint, Model, Port
from xmml.problems import did_you_mean
from xmml.tree import RUN, XMML, Element, parse

#: The terminal and the instance that record; more characters follow where the model has one of that name.
NAME = "record"
#: What positions of errors name instead of a file.
SOURCE = "--record"


class RecordError(ValueError):
    """Nothing can be recorded as it was asked for; the text says why."""


def with_record(model: Model, patterns: Sequence[str]) -> Document:
    """Return the document of a model with a terminal that keeps what passes out ports in an archive.

    Every object and message is kept: who sends waits for the archive where that is slow.

    Args:
        model: one that was read from a document.
        patterns: `INSTANCE.PORT` of out ports, where `*` stands for anything and `?` for one character.

    Raises:
        RecordError: a pattern names no out port, or none that can be recorded.
    """
    if model.document is None:
        raise ValueError("this model was not read from a document")
    ports = _recorded(model, patterns)
    name = _free_name(model)
    root = model.document.root
    added = parse(_fragment(name, ports), SOURCE)
    return replace(model.document, root=_merged(root, added))


def _recorded(model: Model, patterns: Sequence[str]) -> list[Endpoint]:
    """Return the ports that patterns name and that can be recorded, each once."""
    known = dict(_out_ports(model))
    found: dict[Endpoint, None] = {}
    for pattern in patterns:
        fitting = [each for each in known if fnmatchcase(str(each), pattern)]
        recorded = [each for each in fitting if not known[each]]
        if not fitting and any(pattern == each.instance for each in known):
            raise RecordError(f'"{pattern}" is an instance, and ports are recorded; did you mean "{pattern}.*"?')
        if not fitting:
            raise RecordError(
                f'no out port is called "{pattern}"; {did_you_mean(pattern, map(str, known), "out ports")}'
            )
        if not recorded:
            raise RecordError(f"{fitting[0]} cannot be recorded: {known[fitting[0]]}")
        found |= dict.fromkeys(recorded)
    return list(found)


def _out_ports(model: Model) -> Iterator[tuple[Endpoint, str]]:
    """Yield the out ports, each with why it cannot be recorded; empty: it can."""
    for instance in model.instances.values():
        for port in instance.ports.values():
            if port.direction == "out":
                yield Endpoint(instance.id, port.id), _why_not(instance.definition, port)


def _why_not(definition: Definition, port: Port) -> str:
    if definition.kind != "submodel":
        return f"it is of a {definition.kind}, and an archive keeps what submodels send; xmml record also keeps this"
    if port.open:
        return "handles say where it leads (run:open)"
    return "it is for the state of the submodel" if port.type == "state" else ""


def _free_name(model: Model) -> str:
    taken = {*model.instances, *model.definitions}
    name = NAME
    while name in taken:
        name += "-"
    return name


def _fragment(name: str, ports: Iterable[Endpoint]) -> str:
    """Return a document that has nothing but the terminal, its instance, and a pool from each port."""
    couplings = "".join(
        f'<coupling from={quoteattr(str(each))} to="{name}.objects" run:kind="pool"/>\n' for each in ports
    )
    return (
        f'<model id="{name}" xmlns="{XMML}" xmlns:run="{RUN}"><definitions>'
        f'<terminal id="{name}" type="sink" class="archive"><param id="file" value="{NAME}.archive"/>'
        f'<ports><in id="objects"/></ports><implementation run:stage-out="{NAME}.archive"/></terminal></definitions>'
        f'<topology><instance id="{name}" terminal="{name}"/>\n{couplings}</topology></model>'
    )


def _merged(root: Element, added: Element) -> Element:
    """Return a model with what another adds to its definitions and its topology; neither is changed."""
    content: list[Element | str] = []
    for child in root.content:
        more = added.first(child.name) if isinstance(child, Element) and child.namespace == root.namespace else None
        content.append(child if more is None or isinstance(child, str) else _extended(child, more.children))
    return replace(root, content=content)


def _extended(element: Element, added: Sequence[Element]) -> Element:
    """Return an element with more children, instances before the couplings."""
    content = list(element.content)
    instances = [each for each in added if each.name == "instance"]
    first = next(
        (place for place, each in enumerate(content) if isinstance(each, Element) and each.name == "coupling"),
        len(content),
    )
    content[first:first] = instances
    return replace(element, content=[*content, *(each for each in added if each.name != "instance")])
