"""E30: files that a model names, and that lie out of its reach (see `xmml.reach`).

XInclude tells of its own. Programs, interpreters and images may lie anywhere: who runs a model runs its programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from xmml.checks.index import Index
from xmml.patterns import MOST_ENTRIES, OutsideError, Search, TooManyFilesError
from xmml.problems import Problem
from xmml.reach import CODE, outside_problem
from xmml.run_options import settings_of
from xmml.tree import RUN, Element


def staged_files(index: Index) -> Iterator[Problem]:
    """Yield what `run:stage-in` names out of reach, also by links in folders that it names."""
    if index.reach.folders is None:
        return
    search = Search(index.reach, MOST_ENTRIES)
    for definition in [*index.definition_elements, *index.filter_elements]:
        for implementation in definition.named("implementation"):
            for pattern in settings_of(implementation).get("stage-in", ()):
                try:
                    for path in search.matches(index.folder, pattern):
                        for _ in search.below(path):
                            pass
                except OutsideError as error:
                    yield outside_problem(implementation, pattern, error.path, index.reach, "stage-in", RUN)
                except TooManyFilesError:
                    message = f'run:stage-in "{pattern}" leads to more than {MOST_ENTRIES:,} files and folders'
                    help = "name less, or trust all of them with --allow-outside"
                    yield implementation.problem(CODE, message, help, "stage-in", RUN)
                    return


def source_problem(element: Element, file: str, attribute: str | None, folder: str, search: Search) -> Problem | None:
    """Return what is wrong with where a source has its data, which checks and analyses look into.

    Args:
        element: that says so.
        file: a path or a pattern.
        folder: of the model.
    """
    if not file or "\0" in file or search.reach.folders is None:
        return None
    path = os.path.join(folder, file)
    try:
        if not os.path.lexists(path):
            search.matches(folder, file.replace("**", "*"))
        elif not search.reach.holds(path):
            raise OutsideError(path)
    except OutsideError as error:
        return outside_problem(element, file, error.path, search.reach, attribute)
    except TooManyFilesError:
        pass
    return None
