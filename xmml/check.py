"""Checking a model: reading, schema, references, units, and resolving it; every problem in one pass."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xmml.document import load
from xmml.model import Model
from xmml.problems import ModelError, Problem, errors_in, in_order
from xmml.resolve import resolve


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Attributes:
        problems: errors and warnings in the order of their places.
        model: the model, if it has no errors.
    """

    problems: tuple[Problem, ...]
    model: Model | None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Only the errors."""
        return tuple(errors_in(self.problems))

    def model_or_raise(self) -> Model:
        """Return the model.

        Raises:
            ModelError: it has errors.
        """
        if self.model is None:
            raise ModelError(self.problems)
        return self.model


def check(
    path: str | os.PathLike[str],
    parameter_files: Iterable[str | os.PathLike[str]] = (),
    overrides: Mapping[str, str] | None = None,
) -> CheckResult:
    """Check a model document with its parameter files and overrides; never raises for what stands in the files."""
    document, problems = load(path)
    if document is None:
        return CheckResult(tuple(problems), None)
    model, found = resolve(document, parameter_files, overrides)
    problems = in_order([*problems, *found])
    return CheckResult(tuple(problems), None if errors_in(problems) else model)
