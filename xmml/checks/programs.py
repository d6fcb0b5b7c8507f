"""W14: programs, scripts, modules and files that a model names and that are not there.

They may be elsewhere when the model runs, or be made before: this is a warning. What a `run:build` makes is not looked
for. Unlike the other checks, these look at the files beside the document.
"""

from __future__ import annotations

import ast
import glob
import os
import shlex
import shutil
from collections.abc import Iterator
from difflib import get_close_matches

from xmml.builtins import TERMINAL_PARAMETERS
from xmml.checks.classes import is_built_in_source, terminal_problems
from xmml.checks.implementations import is_known_language
from xmml.checks.index import Index, InstanceEntry, parameter
from xmml.model import Instance, Model
from xmml.problems import Problem, did_you_mean
from xmml.run_options import settings_of
from xmml.structure import misspelt
from xmml.tree import RUN, Element

#: Larger files are not read.
_LARGEST_FILE = 1_000_000
#: More names than this are not offered as suggestions.
_MOST_NAMES = 1000


def program_problems(index: Index, model: Model) -> list[Problem]:
    """Return what is missing beside a document for its instances and filters to be started."""
    folder = os.path.dirname(os.path.abspath(model.path))
    return [*_programs(index, folder), *_terminals(index, model, folder)]


def _programs(index: Index, folder: str) -> Iterator[Problem]:
    used = {id(entry.definition): entry.definition for entry in index.entries if entry.definition is not None}
    applied = {apply.get("filter") for coupling in index.couplings for apply in coupling.named("apply")}
    filters = [element for name, element in index.filters.items() if name in applied]
    for definition in [*used.values(), *filters]:
        implementation = definition.first("implementation")
        if implementation is not None and implementation.get("build", RUN) is not None:
            continue
        if implementation is not None:
            yield from _staged(implementation, folder)
        class_ = definition.get("class") or ""
        if implementation is not None and implementation.first("code") is not None:
            continue
        if ":" in class_:
            yield from _hosted(definition, class_, implementation, folder)
        elif implementation is not None and implementation.get("path") is not None:
            yield from _program(implementation, folder)


def _program(implementation: Element, folder: str) -> Iterator[Problem]:
    path = implementation.get("path") or ""
    interpreter = implementation.first("interpreter")
    language = (implementation.get("language") or "").lower()
    if interpreter is not None:
        yield from _interpreter(interpreter, folder)
    file = os.path.normpath(os.path.join(folder, path))
    starts_itself = (
        interpreter is None
        and not language.startswith("python")
        and (not language or is_known_language(language))  # else W15 tells
        and misspelt(implementation, "language") is None  # else W05 tells
    )
    wrong = _wrong_with(file, path, starts_itself)
    if wrong is not None:
        yield implementation.problem("W14", *wrong, "path")


def _wrong_with(file: str, path: str, starts_itself: bool) -> tuple[str, str] | None:
    """Return what is wrong with the file of a program, and what to do about it."""
    try:
        if not os.path.exists(file):
            return f'the program "{path}" does not exist', _similar_file(file, path)
        if os.path.isdir(file):
            return f'the program "{path}" is a folder', "name the program in it"
        if starts_itself and not os.access(file, os.X_OK):
            help = f"chmod +x {shlex.quote(path)}, or say what starts it with language or <interpreter>"
            return f'the program "{path}" is not executable', help
        if not starts_itself and not os.access(file, os.R_OK):
            return f'the script "{path}" cannot be read', f"chmod +r {shlex.quote(path)}"
    except ValueError:  # a path with a NUL
        return f'the program "{path}" cannot exist', "correct its path"
    return None


def _similar_file(file: str, path: str) -> str:
    folder, name = os.path.split(file)
    try:
        names = [each.name for _, each in zip(range(_MOST_NAMES), os.scandir(folder), strict=False)]
    except OSError:
        return f'there is no folder "{os.path.dirname(path)}" beside the document; paths are relative to the document'
    suggestion = did_you_mean(name, names)
    if suggestion.startswith("did you mean"):
        return suggestion
    return 'correct its path, which is relative to the document, or add run:build="..." if a command makes it'


def _staged(implementation: Element, folder: str) -> Iterator[Problem]:
    """Look for the files that an implementation needs in its working folder."""
    for pattern in settings_of(implementation).get("stage-in", ()):
        if "\0" in pattern or not glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
            help = _similar_file(os.path.join(folder, pattern), pattern)
            yield implementation.problem("W14", f'no file matches run:stage-in "{pattern}"', help, "stage-in", RUN)


def _interpreter(interpreter: Element, folder: str) -> Iterator[Problem]:
    named = interpreter.get("path") or interpreter.get("name")
    if named is None:
        help = 'for example <interpreter path="python3"/>'
        yield interpreter.problem("W14", "the interpreter has neither path nor name", help)
    elif shutil.which(os.path.join(folder, named) if "/" in named else named) is None:
        message = f'the interpreter "{named}" is not an executable program here'
        attribute = "path" if interpreter.get("path") else "name"
        yield interpreter.problem("W14", message, "install it, or correct its name", attribute)


def _hosted(definition: Element, class_: str, implementation: Element | None, folder: str) -> Iterator[Problem]:
    """Look for the module of a Python class or function, and for what it names there."""
    module, _, name = class_.partition(":")
    folders = [folder]
    if implementation is not None and (path := implementation.get("path")) is not None:
        file = os.path.normpath(os.path.join(folder, path))
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
            beside = [name.removesuffix(".py") for each in folders for name in _python_files(each)]
            help = did_you_mean(module, beside)
            if not help.startswith("did you mean"):
                help = "it is looked for beside the document, and in the folder of the implementation's path"
            yield definition.problem("W14", f'there is no Python module "{module}"', help, "class")
        return
    names = _names_in(file)
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
        with open(file, "rb") as stream:
            tree = ast.parse(stream.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
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


def _terminals(index: Index, model: Model, folder: str) -> Iterator[Problem]:
    for instance in model.instances.values():
        entry = index.instances[instance.id]
        yield from terminal_problems(entry, instance)
        if is_built_in_source(instance):
            yield from _source_file(entry, instance, folder)


def _source_file(entry: InstanceEntry, instance: Instance, folder: str) -> Iterator[Problem]:
    file = instance.params.get("file", "")
    if not file:
        yield _no_file(entry, instance)
        return
    path = os.path.join(folder, file)
    is_pattern = any(mark in file for mark in "*?[")
    if "\0" in file or os.path.exists(path) or (is_pattern and glob.glob(path)):
        return
    message = f'the file "{file}" that "{instance.id}" sends does not exist'
    param = parameter(entry, "file")
    attribute = None if param is None else "value"
    yield (param or entry.element).problem("W14", message, _similar_file(path, file), attribute)


def _no_file(entry: InstanceEntry, instance: Instance) -> Problem:
    message = f'the source "{instance.id}" ({instance.definition.class_}) names no file'
    unknown = [name for name in instance.params if name not in TERMINAL_PARAMETERS["source"]]
    similar = get_close_matches("file", unknown, n=1, cutoff=0.6)
    param = parameter(entry, similar[0]) if similar else None
    if param is not None:
        return param.problem("W14", message, 'did you mean id="file"?', "id")
    attribute = "id" if entry.element.get("id") is not None else entry.kind
    help = 'add <param id="file" value="..."/>: the file whose contents it sends'
    return entry.element.problem("W14", message, help, attribute)
