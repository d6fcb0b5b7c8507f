"""Datatypes: E13 for extensions of nothing or of themselves."""

from __future__ import annotations

from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.problems import Problem, did_you_mean


def extension(index: Index) -> Iterator[Problem]:
    """A datatype extends a datatype that is defined, and never itself in the end."""
    extends = {name: element.get("extends") for name, element in index.datatypes.items()}
    told: set[str] = set()
    for name, element in index.datatypes.items():
        base = extends[name]
        if base is None:
            continue
        if base not in extends:
            help = did_you_mean(base, set(extends) - {name}, "datatypes")
            yield element.problem(
                "E13", f'the datatype "{name}" extends "{base}", which does not exist', help, "extends"
            )
            continue
        chain = [name]
        while (next_ := extends.get(chain[-1])) is not None and next_ not in chain:
            chain.append(next_)
        if next_ == name and name not in told:
            told.update(chain)
            circle = " extends ".join(f'"{each}"' for each in [*chain, name])
            yield element.problem(
                "E13", f"datatypes extend each other in a circle: {circle}", "remove one extends", "extends"
            )
