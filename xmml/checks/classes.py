"""Classes: E23 for names that are not built in, or not for what they stand on, E24 for what built-ins lack, and E22 for
parameters that they do not have."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.builtins import CLASSES, FILTERS, MAPPERS, TERMINAL_PARAMETERS, TERMINALS
from xmml.checks.index import Index, InstanceEntry, parameter, ports_of
from xmml.model import AppliedFilter, Instance
from xmml.problems import Problem, did_you_mean
from xmml.tree import Element


def known_classes(index: Index) -> Iterator[Problem]:
    """A class is the name of a built-in, or names the user's own: `module:Class`, or a dotted name."""
    used = {id(entry.definition): entry.definition for entry in index.entries if entry.definition is not None}
    applied = {apply.get("filter") for coupling in index.couplings for apply in coupling.named("apply")}
    for element in [*used.values(), *(each for name, each in index.filters.items() if name in applied)]:
        name = element.get("class")
        if name is None or _is_own(element, name):
            if element.name == "filter" and name is None and not _has_program(element):
                yield from _nearly_built_in(element)
        elif name not in CLASSES.get(element.name, ()):
            yield _unknown(element, name)
        elif element.name == "mapper":
            yield from _ports_of_mapper(element, name)


def _is_own(element: Element, name: str) -> bool:
    """Say whether a class is that of a program: this run of xMML then looks for it, or passes it over."""
    return ":" in name or "." in name or _has_program(element) or element.name not in CLASSES


def _has_program(element: Element) -> bool:
    implementation = element.first("implementation")
    return implementation is not None and (
        implementation.get("path") is not None or implementation.first("code") is not None
    )


def _unknown(element: Element, name: str) -> Problem:
    message = f'there is no built-in {element.name} "{name}"'
    suggestion = did_you_mean(name, CLASSES[element.name])
    if not suggestion.startswith("did you mean"):
        places = [kind for kind, names in CLASSES.items() if name in names]
        own = "module:function" if element.name == "filter" else "module:Class"
        suggestion = (
            f'"{name}" is a built-in {places[0]}'
            if places
            else f"built in are: {', '.join(CLASSES[element.name])}; your own is written {own}"
        )
    return element.problem("E23", message, suggestion, "class")


def _nearly_built_in(element: Element) -> Iterator[Problem]:
    """A filter without a class is the built-in one of its id; one that is nearly called so was meant to be it."""
    name = element.get("id") or ""
    suggestion = did_you_mean(name, FILTERS)
    if name not in FILTERS and suggestion.startswith("did you mean"):
        message = f'the filter "{name}" has no class, and there is no built-in filter of that name'
        yield element.problem("E23", message, f'{suggestion} Then write class="..." beside the id', "id")


def _ports_of_mapper(element: Element, name: str) -> Iterator[Problem]:
    single = MAPPERS[name]
    many = "in" if single == "out" else "out"
    fits = sum(port.name == single for port in ports_of(element)) == 1
    if not fits and element.get("type") != f"fan-{many}":  # else E10 tells
        message = f'the built-in mapper "{name}" has one {single} port and any number of {many} ports'
        yield element.problem("E23", message, f'write type="fan-{many}", and give it one {single} port', "class")


def filter_problem(applied: AppliedFilter, apply: Element, definition: Element | None) -> Problem | None:
    """Return what keeps a built-in filter from doing its work with its factor and parameters, where one applies it."""
    name = applied.definition.builtin
    if name is None or name not in FILTERS:
        return None
    from xmml_native import Error
    from xmml_native._native import filter_outputs

    try:
        filter_outputs({"name": name, "factor": applied.factor, "params": dict(applied.params)}, 1)
    except Error as error:
        text = str(error).removeprefix("conduit : ").removeprefix(f"filter {name}: ")
        message = f'the filter "{applied.definition.id}" ({name}) {_sentence(text)}'
        for element in (apply, definition):
            if element is not None and element.get("factor") is not None:
                return element.problem("E24", message, "", "factor")
        help = 'write factor="..." here, or at the definition of the filter' if "factor" in text else ""
        return apply.problem("E24", message, help, "filter")
    return None


def _sentence(text: str) -> str:
    return text if text.startswith("needs ") else f"cannot be used: {text}"


def terminal_problems(entry: InstanceEntry, instance: Instance) -> Iterator[Problem]:
    """Yield what a built-in terminal cannot have."""
    messages = instance.params.get("messages", "one")
    if is_built_in_source(instance) and messages not in ("one", "rows"):
        param = parameter(entry, "messages")
        message = f'the source "{instance.id}" cannot have messages="{messages}"'
        help = did_you_mean(messages, ("one", "rows"), "values")
        yield (param or entry.element).problem("E24", message, help, "value" if param is not None else None)


def parameters_of_terminals(index: Index) -> Iterator[Problem]:
    """A built-in terminal has the parameters that it reads: what a misspelt one says would have no effect."""
    used = {id(entry.definition): entry.definition for entry in index.entries}
    given = [(definition, definition) for definition in used.values()]
    for definition, element in [*given, *((entry.definition, entry.element) for entry in index.entries)]:
        if definition is None or element is None or definition.name != "terminal" or _has_program(definition):
            continue
        known = TERMINAL_PARAMETERS.get(definition.get("type") or "")
        if known is None or definition.get("class") not in TERMINALS:
            continue
        for param in element.named("param"):
            if (name := param.get("id")) is not None and name not in known:
                message = f'a {definition.get("type")} of class "{definition.get("class")}" has no parameter "{name}"'
                help = did_you_mean(name, known, "parameters")
                if not help.startswith("did you mean"):
                    help = f"it has {', '.join(sorted(known))}"
                yield param.problem("E22", message, help, "id")


def is_built_in_source(instance: Instance) -> bool:
    """Say whether an instance is a source that the runtime itself offers."""
    definition = instance.definition
    has_program = definition.implementation is not None and definition.implementation.path is not None
    return (definition.kind, definition.type) == ("terminal", "source") and (
        definition.class_ in TERMINALS and not has_program
    )
