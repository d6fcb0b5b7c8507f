"""``python -m xmml_native.host``: the process of one instance that is not a program of its own.

(``shared_host`` is that of several.)

XMML_HOST says, as JSON, what to run: ``{"code": [...]}``, ``{"class": "module:Class", "path": [...]}``,
``{"mapper": "gather"}``, ``{"terminal": "npy"}`` or ``{"filter": "module:function", "path": [...]}``.
"""

from __future__ import annotations

import os
import sys

from xmml_native._native import parse_json
from xmml_native.errors import Error, print_users_traceback
from xmml_native.instance import Instance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> int:
    """Join the run, host what XMML_HOST says, and return the exit status."""
    try:
        with Instance() as me:
            run(me, hosted())
    except SystemExit:
        raise
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print_users_traceback(error)
        return 1
    return 0


def hosted() -> dict[str, Any]:
    """Return what XMML_HOST says."""
    text = os.environ.get("XMML_HOST")
    if not text:
        raise Error(
            "XMML_HOST is not set: this program is started by xmml-run for instances without a program of their own"
        )
    task: dict[str, Any] = parse_json(text)
    return task


def run(me: Instance, task: dict[str, Any]) -> None:
    """Run what ``task`` describes as the instance ``me``."""
    sys.path[:0] = [folder for folder in task.get("path", []) if folder not in sys.path]
    if "code" in task:
        from xmml_native.inline import InlineProgram

        InlineProgram(me, task["code"]).run()
    elif "class" in task:
        run_class(me, load(me, task["class"]))
    elif "mapper" in task:
        from xmml_native import mappers

        mappers.run(me, task["mapper"])
    elif "terminal" in task:
        from xmml_native import terminals

        terminals.run(me, task["terminal"])
    elif "filter" in task:
        from xmml_native import filters

        filters.run(me, load(me, task["filter"]))
    else:
        raise Error(
            f"{me.name}: XMML_HOST holds {', '.join(task) or 'nothing'}, but no code, class, mapper, terminal or filter"
        )


def load(me: Instance, name: str) -> Any:
    """Return the object that ``module:Name`` names."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise Error(f'{me.name}: class="{name}" must name a module and what is in it: module:Name')
    try:
        __import__(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, and one that it imports does not
        searched = ", ".join(sys.path[:3])
        raise Error(
            f'{me.name}: there is no module {module_name} for class="{name}"; looked in {searched}, ...'
        ) from None
    module = sys.modules[module_name]
    if not hasattr(module, attribute):
        found = ", ".join(n for n, v in vars(module).items() if callable(v) and not n.startswith("_"))
        raise Error(f"{me.name}: {module.__file__} has no {attribute}; it has {found or 'nothing that can be called'}")
    return getattr(module, attribute)


def run_class(me: Instance, hosted_class: Any) -> None:
    """Make an object of ``hosted_class``, which finds ``self.me`` set already, and call its ``run``."""
    if not isinstance(hosted_class, type) or not callable(getattr(hosted_class, "run", None)):
        raise Error(
            f"{me.name}: {hosted_class!r} must be a class derived from xmml.Submodel or xmml.Mapper, or with a run()"
        )
    program: Any = object.__new__(hosted_class)
    program.me = me
    program.__init__()
    program.run()


if __name__ == "__main__":
    sys.exit(main())
