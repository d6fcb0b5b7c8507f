"""How a class in Java is started: by the virtual machine, with its class path and the jar of the development kit."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from xmml.model import Implementation
from xmml.problems import Problem
from xmml_planner.problems import problem_at
from xmml_planner.program import Program

#: The program of the jar that makes an object of the class and has it run.
HOST = "org.xmml.Host"

#: Run by the Python of another site, where alone it is known where the jar is. Arguments: the class path, `--`, others.
_ELSEWHERE = (
    "import os, sys; from xmml_native.config import jar; end = sys.argv.index('--'); "
    "path = os.pathsep.join([*sys.argv[1:end], str(jar())]); "
    "os.execvp('java', ['java', '-cp', path, *sys.argv[end + 1:]])"
)

_TO_INSTALL = "install Java 17 or newer (on Debian: apt install openjdk-17-jre-headless)"


def java_class(
    name: str, implementation: Implementation, folder: str, elsewhere: str | None = None
) -> Program | Problem:
    """Return how the class is started, or why it cannot be.

    Args:
        elsewhere: the Python of another site that it is started at; `None`: it is started on this machine.

    Its class path is the path of the implementation (a folder or a jar; without one the folder of the model), the paths
    of its libraries, and the jar of xMML. A class with a `main` of its own joins the run itself.
    """
    libraries = [library.path for library in implementation.libraries if library.path is not None]
    own = [os.path.normpath(os.path.join(folder, path)) for path in (implementation.path or ".", *libraries)]
    if elsewhere is not None:
        return Program((elsewhere, "-c", _ELSEWHERE, *own, "--", HOST, name), position=implementation.position)
    java = shutil.which("java")
    if java is None:
        message = f'class "{name}" is in Java, but there is no program "java" here'
        return problem_at(implementation.position, message, _TO_INSTALL)
    jar = api_jar()
    if jar is None:
        message = f'class "{name}" is in Java, but this installation of xMML has no Java API'
        help = "install a Java development kit (on Debian: apt install openjdk-17-jdk-headless) and build xMML again"
        return problem_at(implementation.position, message, help)
    return Program((java, "-cp", os.pathsep.join([*own, str(jar)]), HOST, name), position=implementation.position)


def api_jar() -> Path | None:
    """Return the jar of the development kit, or `None` if it was built without Java."""
    spec = importlib.util.find_spec("xmml_native")
    if spec is None or spec.origin is None:
        return None
    jar = Path(spec.origin).parent / "sdk/java/xmml.jar"
    return jar if jar.exists() else None
