"""Checking a model: reading, schema, references, units, resolving it, and what it will do.

All problems come in one pass; what a model will do can only be said of one without other errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from xmml.checks.index import Index
from xmml.checks.model import model_problems
from xmml.checks.programs import program_problems
from xmml.document import Document, load
from xmml.garbage import no_collection
from xmml.late_dataclass import dataclass
from xmml.model import Model
from xmml.problems import ModelError, Problem, errors_in, in_order, render_all
from xmml.resolve import resolve


@dataclass(frozen=True)
class CheckResult:
    """What a check found.

    Attributes:
        problems: errors and warnings in the order of their places.
        model: the model, if it has no errors.
        resolved: the model, also if its only errors are about what it will do (a deadlock): what can be shown of it.
    """

    problems: tuple[Problem, ...]
    model: Model | None
    resolved: Model | None = None

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Only the errors."""
        return tuple(errors_in(self.problems))

    def __repr__(self) -> str:
        return render_all(self.problems) or "no problems"

    def _repr_html_(self) -> str:
        from xmml.notebook import check_html

        return check_html(self)

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
    *,
    allow_outside: bool = False,
) -> CheckResult:
    """Check a model document with its parameter files and overrides; never raises for what stands in the files.

    Parameters:
        allow_outside: files that the documents name may lie anywhere (see `xmml.reach`).
    """
    with no_collection():
        document, problems = load(path, allow_outside=allow_outside)
        if document is None:
            return CheckResult(tuple(problems), None)
        return check_document(document, parameter_files, overrides, problems)


def check_document(
    document: Document,
    parameter_files: Iterable[str | os.PathLike[str]] = (),
    overrides: Mapping[str, str] | None = None,
    already: Sequence[Problem] = (),
) -> CheckResult:
    """Check a model document that has been read.

    Parameters:
        already: problems that reading it has found.
    """
    with no_collection():
        model, found = resolve(document, parameter_files, overrides)
        problems = [*already, *found, *program_problems(Index(document), model, overrides or {})]
        resolved = None if errors_in(problems) else model
        if resolved is not None:
            problems += model_problems(resolved)
        problems = in_order(problems)
        return CheckResult(tuple(problems), None if errors_in(problems) else resolved, resolved)
