"""The process of several instances, each in a thread of its own.

XMML_HOSTED names a JSON file that says which: a list of ``{"name", "task", "folder", "stdout", "stderr"}``, the task as
in XMML_HOST (see ``host``), the paths relative to the working folder of the process. XMML_REPORTS is the number of an
open pipe to the supervisor, for lines of JSON:

    {"is": "output", "name", "stream", "text"}
    {"is": "unwritable", "name", "file", "error"}
    {"is": "ended", "name", "status", "cpu_s"}

Each thread has the working folder of its instance, and what it prints goes to the files of its instance. An exception
ends its own instance only. Modules are shared: each is imported once in the process.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time

from xmml_native._native import enter_folder_alone, parse_json
from xmml_native.errors import print_users_traceback
from xmml_native.host import run
from xmml_native.instance import Instance
from xmml_native.streams import Output, Reports, route_streams, shown, write_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Instances of a process that ask to be let into the run at the same time. Thousands at once would only wait for each
#: other, and keep the coordinator from hearing those who have proved themselves already.
_joining = threading.BoundedSemaphore(64)


def main() -> int:
    """Host what XMML_HOSTED says, and return when the last of it has ended."""
    with open(os.environ["XMML_HOSTED"], encoding="utf-8") as file:
        tasks: list[dict[str, Any]] = parse_json(file.read())
    reports = Reports(int(os.environ["XMML_REPORTS"]))
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)  # each thread will have another
    allow_many_descriptors()
    route_streams()
    threads = [
        threading.Thread(target=host, args=(task, folder, reports), name=task["name"], daemon=True) for task in tasks
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0


def allow_many_descriptors() -> None:
    """Take what the system allows: every instance has connections and files of its own."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def host(task: dict[str, Any], folder: int, reports: Reports) -> None:
    """Run one instance in the calling thread, and report how it ended.

    Args:
        folder: the descriptor of the folder that the process works in.
    """
    name = task["name"]
    status = 1
    try:
        output = Output(name, {kind: task[kind] for kind in ("stdout", "stderr")}, folder, reports)
        write_for(output)
        try:
            status = be(name, task)
        finally:
            output.close()
    except OSError as error:
        file = shown(error.filename or task["stdout"], folder)
        reports.tell({"is": "unwritable", "name": name, "file": file, "error": error.strerror})
    finally:
        reports.tell({"is": "ended", "name": name, "status": status, "cpu_s": round(time.thread_time(), 6)})


def be(name: str, task: dict[str, Any]) -> int:
    """Be an instance of the run, and return the exit status that a process of its own would have."""
    me: Instance | None = None
    try:
        enter_folder_alone(task["folder"])
        with _joining:
            me = Instance.__new__(Instance, hosted_as=name)
        with me:
            run(me, task["task"])
    except SystemExit as wanted:
        return exit_status(wanted)
    except BaseException as error:
        print_users_traceback(error)
        return 1
    finally:
        if me is not None:
            me.abandon()  # the objects of a failed program may keep it, as long as the process lives
    return 0


def exit_status(wanted: SystemExit) -> int:
    """The exit status that `sys.exit` asks for; a text goes to standard error, as the interpreter does it."""
    if wanted.code is None or isinstance(wanted.code, int):
        return (wanted.code or 0) & 0xFF
    print(wanted.code, file=sys.stderr)
    return 1
