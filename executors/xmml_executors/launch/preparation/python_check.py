"""Whether the Python of a site is new enough, and has xMML: told before a job waits in a queue for nothing."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection

from xmml_planner import Plan
from xmml_sites.environment import LEAST_PYTHON, environment_lines, required
from xmml_sites.ssh.remote_shell import path_word

from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.outcome import SiteError

#: Modules and lines of the setup may take their time.
ANSWERS_WITHIN_S = 120.0
_LACKS, _HAS = "python-without-xmml", "python-with-xmml"
_LOOK = (
    "import sys, importlib.util; print('python-version %d.%d' % sys.version_info[:2], "
    f"{_HAS!r} if importlib.util.find_spec('xmml_native') else {_LACKS!r})"
)
#: Exit statuses of a shell that has not found a program, or may not start it.
_CANNOT_START = (126, 127)
_VERSION = re.compile(r"^python-version (\d+)\.(\d+) ", re.MULTILINE)


def parts_with_python_instances(plan: Plan, parts: Collection[str]) -> list[str]:
    """Return those of the parts of a site at which an instance runs in the site's Python."""
    python = {site.name: site.python for site in plan.sites}
    found = {
        instance.site
        for instance in plan.instances
        if instance.site in parts
        and (
            instance.process is not None
            or sys.executable in instance.command
            or python[instance.site] in instance.command
        )
    }
    return sorted(found)


async def check_python(site: RunSite, parts: Collection[str], plan: Plan) -> None:
    """Look, in the environment that programs have there, whether the site's Python is new enough and has xMML, where
    instances run in it. What else is wrong with that environment, the job tells.

    Raises:
        SiteError: it is not, or has not.
        TransportError: the site cannot be reached.
    """
    for name in parts_with_python_instances(plan, parts):
        part = next(each for each in plan.sites if each.name == name)
        lines = environment_lines(part)
        look = f"{path_word(part.python)} -c {shlex.quote(_LOOK)}"
        ready = required(lines) + look
        text = f"{site.shell} {shlex.quote(ready)}" if lines else look
        answer = await site.transport.run(text, timeout_s=ANSWERS_WITHIN_S)
        found = _VERSION.search(answer.stdout)
        if found and (int(found[1]), int(found[2])) < LEAST_PYTHON:
            raise SiteError(
                f"{part.python} at {name} is Python {found[1]}.{found[2]}, but xMML needs "
                f"{LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer: name a module that has it (modules), or set python = "
                "to one"
            )
        if not found and answer.status in _CANNOT_START:
            raise SiteError(
                f"{part.python} at {name} cannot be started: {answer.said}; xmml sites install {name} installs a "
                "Python environment with xMML there, or set python = to one"
            )
        if _LACKS in answer.stdout:
            raise SiteError(
                f"{part.python} at {name} has no xMML: install it there (xmml sites install {name} does), or "
                f"set python = to the Python that has it; xmml sites check {name} looks again"
            )
