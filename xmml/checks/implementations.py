"""Implementations: E02 for settings that contradict each other, and for code that belongs nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.definitions import positive_integer
from xmml.model import OPERATORS
from xmml.problems import Problem, did_you_mean
from xmml.run_options import run_options
from xmml.tree import Element

_PARTS = ("header", *OPERATORS)


def cores_agree(index: Index) -> Iterator[Problem]:
    """Ranks times threads, if given, are the cores."""
    for element in _implementations(index):
        options = run_options(element)
        cores = positive_integer(element.get("cores"))
        needed = (options.mpi or 1) * (options.threads or 1)
        if cores is None or (options.mpi is None and options.threads is None) or cores == needed:
            continue
        message = f"cores says {cores}, but run:mpi and run:threads make {needed}"
        yield element.problem("E02", message, "remove cores: ranks times threads count", "cores")


def parts_of_code(index: Index) -> Iterator[Problem]:
    """Inline Python belongs to the header or to an operator; elsewhere it would never run."""
    for element in _implementations(index):
        for code in element.named("code"):
            part = code.get("part")
            if (code.get("language") or "").lower().startswith("python") and part not in _PARTS:
                if part is None:
                    help = f'add part="...", one of {", ".join(_PARTS)}'
                    yield code.problem("E02", "this code does not say where it belongs", help)
                else:
                    help = did_you_mean(part, _PARTS, "parts")
                    yield code.problem("E02", f'code cannot belong to "{part}"', help, "part")


def _implementations(index: Index) -> Iterator[Element]:
    for definition in [*index.definition_elements, *index.filter_elements]:
        yield from definition.named("implementation")
