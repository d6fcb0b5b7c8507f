"""What to start for an instance: program, arguments, environment, cores."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xmml.builtins import CLASSES, MAPPERS, TERMINALS
from xmml.late_dataclass import dataclass
from xmml.model import AppliedFilter, Definition, Implementation, Instance, Interpreter
from xmml.positions import Position
from xmml.problems import Problem, did_you_mean
from xmml.program_sources import how_to_build, instead_of_source, is_only_source, is_source, source_beside
from xmml_planner.java import java_class
from xmml_planner.problems import problem_at
from xmml_planner.program import Program

#: The MPI launcher of this machine.
MPI_LAUNCHER = "mpirun"
#: What starts programs in images, the first one that there is.
CONTAINER_PROGRAMS = ("apptainer", "singularity")
#: The interpreter of Python in an image.
PYTHON_IN_IMAGES = "python3"


@dataclass(frozen=True)
class Tools:
    """What programs are started with at a site.

    Attributes:
        python: the Python that has xMML.
        find: returns where a program is; `None` if it is not there.
        launcher: what starts so many ranks of an MPI program; `None` if nothing does.
        container: what starts programs in images: a program, or a command with `{image}`; `None` if nothing does.
        is_elsewhere: it is not this machine, and what is installed there is not known here.
    """

    python: str
    find: Callable[[str], str | None]
    launcher: Callable[[int], tuple[str, ...] | None]
    container: str | None = None
    is_elsewhere: bool = False


def _found_here(name: str) -> str | None:
    found = shutil.which(name)
    return os.path.abspath(found) if found else None


def _mpi_here(ranks: int) -> tuple[str, ...] | None:
    found = shutil.which(MPI_LAUNCHER)
    return (found, "-n", str(ranks)) if found else None


def container_here() -> str | None:
    """Return what starts programs in images on this machine."""
    return next(filter(None, map(_found_here, CONTAINER_PROGRAMS)), None)


#: What there is on this machine.
TOOLS_HERE = Tools(sys.executable, _found_here, _mpi_here)


# As `python -m xmml_native.host`, but without importing runpy, which would be a third of the start-up time.
_HOST = "from xmml_native.host import main; raise SystemExit(main())"

#: What starts an instance that the runtime hosts on this machine.
HOST_COMMAND = (sys.executable, "-c", _HOST)


def is_host_command(command: Sequence[str]) -> bool:
    """Whether a command starts what the runtime hosts, on this machine or another."""
    return tuple(command[1:]) == HOST_COMMAND[1:]


def hosted(what: Mapping[str, Any], tools: Tools = TOOLS_HERE) -> Program:
    """Return the program of something that the runtime hosts: a class, inline code, a built-in, a filter."""
    return Program((tools.python, *HOST_COMMAND[1:]), {"XMML_HOST": json.dumps(what, ensure_ascii=False)})


def program_of(instance: Instance, folder: str, tools: Tools = TOOLS_HERE) -> Program | Problem:
    """Return how an instance of the model is started, or why it cannot be. `folder` is that of the model."""
    definition = instance.definition
    implementation = definition.implementation or Implementation(position=definition.position)
    if implementation.run.image is not None:
        found = _in_image(definition, implementation, folder, tools)
    else:
        found = _own_program(definition, implementation, folder, tools)
    if isinstance(found, Problem):
        return found
    return _with_run_options(found, implementation, tools)


def _in_image(definition: Definition, implementation: Implementation, folder: str, tools: Tools) -> Program | Problem:
    """Return how a program is started in an image. An absolute path names a program of the image; what else is named is
    in the model's folder, which is seen in there, too."""
    assert implementation.run.image is not None
    image = os.path.normpath(os.path.join(folder, implementation.run.image))
    if implementation.path is None or implementation.codes or definition.class_ is not None:
        return problem_at(
            implementation.position,
            f'{definition.kind} "{definition.id}" has run:image, but only programs run in images',
            "name the program with path, relative to the document or absolute in the image, and leave out class and "
            "code; or leave out run:image",
        )
    how = tools.container or (None if tools.is_elsewhere else container_here())
    if how is None and not tools.is_elsewhere:
        return problem_at(
            implementation.position,
            f'run:image="{implementation.run.image}" needs {" or ".join(CONTAINER_PROGRAMS)}, which is not installed '
            "here",
            "install Apptainer, or name it with container = in the file of sites",
        )
    path, file = implementation.path, None
    if not os.path.isabs(path):
        path = file = os.path.normpath(os.path.join(folder, path))
    words: tuple[str, ...] = ()
    if implementation.interpreters:
        interpreter = implementation.interpreters[0]
        words = (interpreter.path or interpreter.name or "", *shlex.split(interpreter.flags or ""))
    elif (implementation.language or "").lower().startswith("python"):
        words = (PYTHON_IN_IMAGES,)
    program, *arguments = container_command(how or CONTAINER_PROGRAMS[0], image, has_gpus=bool(implementation.run.gpus))
    start = (tools.find(program) or program, *arguments)
    return Program(
        (*start, *words, path),
        file=file,
        needs_exec=not words,
        position=implementation.position,
        image=image,
    )


def container_command(how: str, image: str, *, has_gpus: bool) -> tuple[str, ...]:
    """Return the words that start a program in an image, which follows them.

    Args:
        how: a program, or a command with `{image}`, which then also says how GPUs are seen.
    """
    words = shlex.split(how)
    if "{image}" in words:
        return tuple(image if word == "{image}" else word for word in words)
    return (*words, "exec", *(["--nv"] if has_gpus else []), image)


def _own_program(
    definition: Definition, implementation: Implementation, folder: str, tools: Tools
) -> Program | Problem:
    class_ = definition.class_
    if implementation.codes:
        return _inline(definition, implementation, tools)
    if class_ is not None and (implementation.language or "").lower() == "java":
        return java_class(class_, implementation, folder, tools.python if tools.is_elsewhere else None)
    if class_ is not None and ":" in class_:
        return hosted({"class": class_, "path": _import_path(implementation, folder)}, tools)
    if definition.kind == "mapper" and class_ in MAPPERS:
        return hosted({"mapper": class_}, tools)
    if definition.kind == "terminal" and class_ in TERMINALS:
        return hosted({"terminal": class_}, tools)
    if implementation.path is not None:
        return _file_program(implementation, folder, tools)
    return _nothing_to_run(definition)


def _inline(definition: Definition, implementation: Implementation, tools: Tools) -> Program | Problem:
    for code in implementation.codes:
        if not code.language.lower().startswith("python"):
            return problem_at(
                code.position,
                f'{definition.kind} "{definition.id}" has inline code in {code.language}; it can be Python only',
                "put the code into a file of its own and name it with path",
            )
    return hosted(
        {
            "code": [
                {
                    "part": code.part,
                    "text": code.text,
                    "line": code.position.line if code.position else 1,
                    "file": code.position.file if code.position else "model",
                }
                for code in implementation.codes
            ]
        },
        tools,
    )


def _import_path(implementation: Implementation, folder: str) -> list[str]:
    """Return the folders that a `module:Class` is imported from: that of the implementation's file, then the
    model's."""
    if implementation.path is None:
        return [folder]
    path = os.path.join(folder, implementation.path)
    own = path if os.path.isdir(path) else os.path.dirname(path)
    return list(dict.fromkeys([os.path.normpath(own), folder]))


def _file_program(implementation: Implementation, folder: str, tools: Tools) -> Program | Problem:
    assert implementation.path is not None
    path = os.path.normpath(os.path.join(folder, implementation.path))
    if implementation.interpreters:
        interpreter = _interpreter(implementation.interpreters[0], folder, implementation.position, tools)
        if isinstance(interpreter, Problem):
            return interpreter
        return Program((*interpreter, path), file=path, position=implementation.position)
    if (implementation.language or "").lower().startswith("python"):
        return Program((tools.python, path), file=path, position=implementation.position)
    return Program((path,), file=path, needs_exec=True, position=implementation.position)


def _interpreter(
    interpreter: Interpreter, folder: str, position: Position | None, tools: Tools
) -> tuple[str, ...] | Problem:
    named = interpreter.path or interpreter.name
    if named is None:
        return problem_at(
            position, "the interpreter has neither path nor name", 'for example <interpreter path="python3.11"/>'
        )
    candidate = os.path.join(folder, named) if "/" in named else named
    program = tools.find(candidate)
    if program is None:
        return problem_at(
            position, f'the interpreter "{named}" is not an executable program here', "install it, or correct its path"
        )
    return (program, *shlex.split(interpreter.flags or ""))


def _nothing_to_run(definition: Definition) -> Problem:
    message = f'{definition.kind} "{definition.id}" does not say what to run'
    builtins = CLASSES.get(definition.kind, ())
    help = 'add <implementation path="..."/>, or inline <code>, or class="module:Class"'
    if definition.class_ is not None:
        message = f'{definition.kind} "{definition.id}": class "{definition.class_}" is nothing that can be run'
        help = did_you_mean(definition.class_, builtins, "built-ins") or help
    elif builtins:
        help += f'; built in are class="{"|".join(builtins)}"'
    return problem_at(definition.position, message, help)


def _with_run_options(program: Program, implementation: Implementation, tools: Tools) -> Program | Problem:
    run = implementation.run
    command = (*program.command, *run.args)
    env = dict(program.env)
    threads = run.threads or 1
    cores = (run.mpi or 1) * threads if run.mpi or run.threads else implementation.cores or 1
    if run.threads:
        env["OMP_NUM_THREADS"] = str(run.threads)
    if run.mpi:
        launcher = tools.launcher(run.mpi)
        if launcher is None:
            return problem_at(
                implementation.position,
                f'run:mpi="{run.mpi}" needs the MPI launcher "{MPI_LAUNCHER}", which is not installed here',
                "on Debian: apt install openmpi-bin libopenmpi-dev",
            )
        command = (*launcher, *command)
    env.update(run.env)
    return replace(program, command=command, env=env, cores=cores)


def filter_program(applied: AppliedFilter, folder: str, tools: Tools = TOOLS_HERE) -> Program | Problem:
    """Return how a filter that is a Python callable (`class="module:function"`) is started."""
    definition = applied.definition
    if definition.class_ is None or ":" not in definition.class_:
        return problem_at(
            definition.position,
            f'filter "{definition.id}" has no class'
            if definition.class_ is None
            else f'filter "{definition.id}": "{definition.class_}" is neither built in nor "module:function"',
            'name a built-in filter, or write class="module:function" and say where the module is: '
            '<implementation language="python" path="..."/>',
        )
    implementation = definition.implementation or Implementation()
    return hosted({"filter": definition.class_, "path": _import_path(implementation, folder)}, tools)


def check_image(image: str) -> tuple[str, str] | None:
    """Return what is wrong with an image and what to do, or `None`."""
    if os.path.exists(image):
        return None
    folder, name = os.path.split(image)
    beside = os.listdir(folder) if os.path.isdir(folder) else []
    return f'the image "{image}" does not exist', did_you_mean(name, beside) or "make it with apptainer build or pull"


def check_file(file: str, needs_exec: bool, model_folder: str, *, has_build: bool) -> tuple[str, str] | None:
    """Return what is wrong with the file of a program and what to do, or `None`.

    Args:
        has_build: the model has a command that builds it.
    """
    if not os.path.exists(file):
        help = _how_to_get(file, needs_exec, model_folder, has_build=has_build)
        return f'the program "{file}" does not exist', help
    if os.path.isdir(file):
        return f'the program "{file}" is a folder', "name the program in it"
    if needs_exec and is_only_source(file):
        return instead_of_source(os.path.relpath(file, model_folder))
    if needs_exec and not os.access(file, os.X_OK):
        return (
            f'the program "{file}" is not executable',
            f"chmod +x {shlex.quote(file)}, or say what starts it with language or <interpreter>",
        )
    if not os.access(file, os.R_OK) and not needs_exec:
        return f'the script "{file}" cannot be read', f"chmod +r {shlex.quote(file)}"
    return None


def _how_to_get(file: str, needs_exec: bool, model_folder: str, *, has_build: bool) -> str:
    """Return what to do about a program that is not there."""
    source = source_beside(file) if needs_exec and not has_build else None
    if source is not None:
        return how_to_build(os.path.relpath(file, model_folder), source)
    folder, name = os.path.split(file)
    if not os.path.isdir(folder):
        return f'the folder "{folder}" does not exist'
    return did_you_mean(name, [each for each in os.listdir(folder) if not (needs_exec and is_source(each))], "files")
