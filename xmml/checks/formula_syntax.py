"""Formulas: E20 for what cannot be read. Whether their variables have values shows when the model is resolved."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.formulas import FormulaError, parse
from xmml.problems import Problem
from xmml.tree import Element


def formulas(index: Index) -> Iterator[Problem]:
    """Every size estimate and factor is a formula."""
    places: list[tuple[Element, str]] = [(element, "size_estimate") for element in index.datatype_elements]
    places += [(element, "factor") for element in index.filter_elements]
    places += [(apply, "factor") for coupling in index.couplings for apply in coupling.named("apply")]
    for element, attribute in places:
        text = element.get(attribute)
        if text is None:
            continue
        try:
            parse(text)
        except FormulaError as error:
            help = "a formula has numbers, names, + - * / ^, sizeof(type), log(...), sqrt(...) and parentheses"
            yield element.problem("E20", f'{attribute}="{text}" is not a formula: {error}', help, attribute)
