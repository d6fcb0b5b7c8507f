"""From a file in one format to the text of another: what `xmml convert` does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from xmml.convert.converted import Converted, without_repetition
from xmml.document import Document
from xmml.model import Model
from xmml.problems import ModelError, errors_in
from xmml.reach import reach_of
from xmml.resolve import resolve
from xmml.tree import parse

Format = Literal["cxa", "ymmsl", "xmml"]
YmmslVersion = Literal["0.1", "0.2"]


def convert(
    path: str,
    to: Format,
    *,
    is_ymmsl: bool = False,
    ymmsl_version: YmmslVersion = "0.2",
    expand: bool = False,
    parameter_files: Iterable[str] = (),
    overrides: Mapping[str, str] | None = None,
    allow_outside: bool = False,
) -> Converted:
    """Return the model in a file in another format.

    Parameters:
        is_ymmsl: the file is yMMSL and not xMML.
        expand: from xMML to xMML: put includes in place.
        parameter_files, overrides: as for `xmml.check.check`; a document that stays xMML takes neither.
        allow_outside: files that documents name may lie anywhere (see `xmml.reach`).

    Raises:
        ModelError: the file cannot be read, or the model has errors in its structure.
    """
    if to == "xmml" and not is_ymmsl:
        from xmml.convert.rewrite import rewrite

        written = rewrite(path, expand, allow_outside=allow_outside)
        if tuple(parameter_files) or overrides:
            note = "parameter files and -p change no document: give them to xmml-run, or convert to another format"
            return replace(written, notes=(*written.notes, note))
        return written
    notes: tuple[str, ...] = ()
    if is_ymmsl:
        from xmml.convert.ymmsl_import import ymmsl_to_xmml

        imported = ymmsl_to_xmml(path)
        if to == "xmml":
            return imported
        notes = imported.notes
        model = _resolved(imported.text, path, parameter_files, overrides, allow_outside)
    else:
        model = _checked(path, parameter_files, overrides, allow_outside)
    converted = _written(model, to, ymmsl_version)
    return replace(converted, notes=without_repetition((*notes, *converted.notes)))


def _written(model: Model, to: Format, ymmsl_version: YmmslVersion) -> Converted:
    if to == "cxa":
        from xmml.convert.cxa import to_cxa

        return to_cxa(model)
    from xmml.convert.ymmsl_export import to_ymmsl

    return to_ymmsl(model, ymmsl_version)


def _checked(
    path: str, parameter_files: Iterable[str], overrides: Mapping[str, str] | None, allow_outside: bool
) -> Model:
    """Return the model of a document; one that will get stuck can be converted, too."""
    from xmml.check import check

    result = check(path, parameter_files, overrides, allow_outside=allow_outside)
    if result.resolved is None:
        raise ModelError(result.problems)
    return result.resolved


def model_of_ymmsl(
    path: str,
    parameter_files: Iterable[str | os.PathLike[str]] = (),
    overrides: Mapping[str, str] | None = None,
    *,
    allow_outside: bool = False,
) -> Model:
    """Return the model that a yMMSL file stands for; the arguments are those of `convert`.

    Raises:
        ModelError: the file cannot be read, or the model has errors.
    """
    from xmml.convert.ymmsl_import import ymmsl_to_xmml

    return _resolved(ymmsl_to_xmml(path).text, path, parameter_files, overrides, allow_outside)


def _resolved(
    text: str,
    path: str,
    parameter_files: Iterable[str | os.PathLike[str]],
    overrides: Mapping[str, str] | None,
    allow_outside: bool,
) -> Model:
    document = Document(path, parse(text, path), (path,), reach_of(path, allow_outside=allow_outside))
    model, problems = resolve(document, parameter_files, overrides)
    if errors_in(problems):
        raise ModelError(errors_in(problems))
    return model
