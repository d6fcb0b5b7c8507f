"""W14: programs, scripts, modules and files that a model names and that are not there.

They may be elsewhere when the model runs, or be made before: this is a warning. What a `run:build` makes is not looked
for. Unlike the other checks, these look at the files beside the document.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping

from xmml.builtins import TERMINAL_PARAMETERS
from xmml.checks.classes import is_built_in_source, terminal_problems
from xmml.checks.implementations import is_known_language
from xmml.checks.index import Index, InstanceEntry, parameter
from xmml.files import FileUnreadable, read_bytes
from xmml.model import Instance, Model
from xmml.patterns import MOST_ENTRIES, OutsideError, Search, TooManyFilesError
from xmml.problems import Problem, did_you_mean
from xmml.program_sources import how_to_build, instead_of_source, is_only_source, is_source, source_beside
from xmml.reach import Reach
from xmml.run_options import is_misspelt_run, settings_of
from xmml.structure import misspelt
from xmml.tree import RUN, Element

#: Larger files are not read.
_LARGEST_FILE = 1_000_000
#: More names than this are not offered as suggestions.
_MOST_NAMES = 1000


def program_problems(index: Index, model: Model, overrides: Mapping[str, str]) -> list[Problem]:
    """Return what is missing beside a document for its instances and filters to be started.

    Parameters:
        overrides: what the command line says of parameters.
    """
    search = Search(index.reach, MOST_ENTRIES)
    return [*_programs(index, search), *_terminals(index, model, overrides, search)]


def _programs(index: Index, search: Search) -> Iterator[Problem]:
    used = {id(entry.definition): entry.definition for entry in index.entries if entry.definition is not None}
    applied = {apply.get("filter") for coupling in index.couplings for apply in coupling.named("apply")}
    filters = [element for name, element in index.filters.items() if name in applied]
    for definition in [*used.values(), *filters]:
        implementation = definition.first("implementation")
        if implementation is not None and _has_build(implementation):
            continue
        if implementation is not None:
            yield from _staged(implementation, index, search)
        class_ = definition.get("class") or ""
        if implementation is not None and implementation.first("code") is not None:
            continue
        if ":" in class_:
            yield from _hosted(definition, class_, implementation, index)
        elif implementation is not None and implementation.get("path") is not None:
            yield from _program(implementation, index)


def _has_build(implementation: Element) -> bool:
    """Say whether a command builds a program, or would, were it not in a misspelt namespace (E02 tells)."""
    return any(
        each.name == "build" and (each.namespace == RUN or is_misspelt_run(each.prefix, each.namespace))
        for each in implementation.attributes
    )


def _program(implementation: Element, index: Index) -> Iterator[Problem]:
    path = implementation.get("path") or ""
    interpreter = implementation.first("interpreter")
    language = (implementation.get("language") or "").lower()
    if interpreter is not None:
        yield from _interpreter(interpreter, index.folder)
    file = os.path.normpath(os.path.join(index.folder, path))
    starts_itself = (
        interpreter is None
        and not language.startswith("python")
        and (not language or is_known_language(language))  # else W15 tells
        and misspelt(implementation, "language") is None  # else W05 tells
    )
    wrong = _wrong_with(file, path, starts_itself, index.reach)
    if wrong is not None:
        yield implementation.problem("W14", *wrong, "path")


def _wrong_with(file: str, path: str, starts_itself: bool, reach: Reach) -> tuple[str, str] | None:
    """Return what is wrong with the file of a program, and what to do about it."""
    try:
        if not os.path.exists(file):
            return f'the program "{path}" does not exist', _how_to_get(file, path, starts_itself, reach)
        if os.path.isdir(file):
            return f'the program "{path}" is a folder', "name the program in it"
        if starts_itself and is_only_source(file):
            return instead_of_source(path)
        if starts_itself and not os.access(file, os.X_OK):
            help = f"chmod +x {shlex.quote(path)}, or say what starts it with language or <interpreter>"
            return f'the program "{path}" is not executable', help
        if not starts_itself and not os.access(file, os.R_OK):
            return f'the script "{path}" cannot be read', f"chmod +r {shlex.quote(path)}"
    except ValueError:  # a path with a NUL
        return f'the program "{path}" cannot exist', "correct its path"
    return None


def _how_to_get(file: str, path: str, starts_itself: bool, reach: Reach) -> str:
    """Return what to do about a program that is not there."""
    if not starts_itself:
        return _similar_file(file, path, reach)
    source = source_beside(file) if reach.holds(os.path.dirname(file)) else None
    return _similar_file(file, path, reach, starts_itself=True) if source is None else how_to_build(path, source)


def _similar_file(file: str, path: str, reach: Reach, *, starts_itself: bool = False) -> str:
    """Return the files whose names resemble that of one that is not there; none of sources if it `starts_itself`."""
    folder, name = os.path.split(file)
    if not reach.holds(folder):
        return "correct its path, which is relative to the document"
    try:
        names = [each.name for _, each in zip(range(_MOST_NAMES), os.scandir(folder), strict=False)]
    except OSError:
        return f'there is no folder "{os.path.dirname(path)}" beside the document; paths are relative to the document'
    suggestion = did_you_mean(name, [each for each in names if not (starts_itself and is_source(each))])
    if suggestion.startswith("did you mean"):
        return suggestion
    return 'correct its path, which is relative to the document, or add run:build="..." if a command makes it'


def _staged(implementation: Element, index: Index, search: Search) -> Iterator[Problem]:
    """Look for the files that an implementation needs in its working folder."""
    for pattern in settings_of(implementation).get("stage-in", ()):
        found = _matches(pattern, index.folder, search)
        if found is not None and not found:
            help = _similar_file(os.path.join(index.folder, pattern), pattern, index.reach)
            yield implementation.problem("W14", f'no file matches run:stage-in "{pattern}"', help, "stage-in", RUN)
        for path in found or ():
            if not os.path.isfile(path) and not os.path.isdir(path):
                message = f'run:stage-in "{pattern}" names "{path}", which is neither a file nor a folder'
                help = "a pipe, a device, or a link that leads nowhere cannot be copied"
                yield implementation.problem("W14", message, help, "stage-in", RUN)


def _matches(pattern: str, folder: str, search: Search) -> list[str] | None:
    """Return what a pattern names; `None` if E30 tells of it, or there is too much to look at."""
    try:
        return search.matches(folder, pattern)
    except (OutsideError, TooManyFilesError):
        return None


def _interpreter(interpreter: Element, folder: str) -> Iterator[Problem]:
    named = interpreter.get("path") or interpreter.get("name")
    if named is None:
        help = 'for example <interpreter path="python3"/>'
        yield interpreter.problem("W14", "the interpreter has neither path nor name", help)
    elif shutil.which(os.path.join(folder, named) if "/" in named else named) is None:
        message = f'the interpreter "{named}" is not an executable program here'
        attribute = "path" if interpreter.get("path") else "name"
        yield interpreter.problem("W14", message, "install it, or correct its name", attribute)


def _hosted(definition: Element, class_: str, implementation: Element | None, index: Index) -> Iterator[Problem]:
    """Look for the module of a Python class or function, and for what it names there."""
    module, _, name = class_.partition(":")
    folders = [index.folder]
    if implementation is not None and (path := implementation.get("path")) is not None:
        file = os.path.normpath(os.path.join(index.folder, path))
        folders.insert(0, file if os.path.isdir(file) else os.path.dirname(file))
    steps = module.split(".")
    if not all(step.isidentifier() for step in steps):
        message = f'"{module}" is no name of a Python module'
        yield definition.problem("W14", message, 'write class="module:Class"', "class")
        return
    found = [os.path.join(each, *steps) for each in folders]
    file = next((path for base in found for path in (f"{base}.py", f"{base}/__init__.py") if os.path.isfile(path)), "")
    if not file:
        if not any(os.path.isdir(base) for base in found) and not _is_installed(steps[0]):
            near = [each for each in folders if index.reach.holds(each)]
            beside = [name.removesuffix(".py") for each in near for name in _python_files(each)]
            help = did_you_mean(module, beside)
            if not help.startswith("did you mean"):
                help = "it is looked for beside the document, and in the folder of the implementation's path"
            yield definition.problem("W14", f'there is no Python module "{module}"', help, "class")
        return
    names = _names_in(file) if index.reach.holds(file) else None
    if names is not None and name not in names:
        message = f'the module "{module}" has no "{name}"'
        yield definition.problem("W14", message, did_you_mean(name, names, "names in it"), "class")


def _python_files(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder)[:_MOST_NAMES] if name.endswith(".py")]
    except OSError:
        return []


def _is_installed(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _names_in(file: str) -> set[str] | None:
    """Return the names that a Python file defines at its top level; `None` if that cannot be told from its text."""
    try:
        if os.path.getsize(file) > _LARGEST_FILE:
            return None
        tree = ast.parse(read_bytes(file))
    except (OSError, FileUnreadable, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        elif not isinstance(node, ast.Expr | ast.Pass):
            return None  # what an if, a try or a loop defines shows when it runs
    return None if "*" in names or "__getattr__" in names else names


def _terminals(index: Index, model: Model, overrides: Mapping[str, str], search: Search) -> Iterator[Problem]:
    for instance in model.instances.values():
        entry = index.instances[instance.id]
        yield from terminal_problems(entry, instance)
        if is_built_in_source(instance):
            is_own_word = f"{instance.id}.file" in overrides
            yield from _source_file(entry, instance, index.folder, Search(most=MOST_ENTRIES) if is_own_word else search)


def _source_file(entry: InstanceEntry, instance: Instance, folder: str, search: Search) -> Iterator[Problem]:
    file = instance.params.get("file", "")
    if not file:
        if all(name in TERMINAL_PARAMETERS["source"] for name in instance.params):  # else E22 tells of a misspelt one
            yield _no_file(entry, instance)
        return
    path = os.path.join(folder, file)
    if "\0" in file or os.path.exists(path):
        return
    found = _matches(file.replace("**", "*"), folder, search)
    if found is None or any(map(os.path.exists, found)):
        return
    message = f'the file "{file}" that "{instance.id}" sends does not exist'
    param = parameter(entry, "file")
    attribute = None if param is None else "value"
    yield (param or entry.element).problem("W14", message, _similar_file(path, file, search.reach), attribute)


def _no_file(entry: InstanceEntry, instance: Instance) -> Problem:
    message = f'the source "{instance.id}" ({instance.definition.class_}) names no file'
    attribute = "id" if entry.element.get("id") is not None else entry.kind
    help = 'add <param id="file" value="..."/>: the file whose contents it sends'
    return entry.element.problem("W14", message, help, attribute)
