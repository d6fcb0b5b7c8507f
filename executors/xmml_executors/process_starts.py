"""The start of the processes of a run: commands, variables and files of each, and which have been started."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xmml_planner import Plan, PlannedInstance
from xmml_planner.hosting import members
from xmml_planner.programs import MPI_LAUNCHER

from xmml_executors import protocol
from xmml_executors.binding.process_binding import Binding
from xmml_executors.executor import Executor, ProcessStart, in_image
from xmml_executors.limits import explained
from xmml_executors.local_plan import here
from xmml_executors.mpi_sessions import SESSION_FOLDER_OF_MPI
from xmml_executors.run_folder import RunFolder

#: What starts a process that instances share.
SHARED_HOST_COMMAND = (sys.executable, "-c", "from xmml_native.shared_host import main; raise SystemExit(main())")
#: The file, in the folder of such a process, that says which instances it hosts.
HOSTED = "hosted.json"
#: The fork server is worth its start from so many processes on.
FORKED_FROM = 3
#: How the names of variables begin that an interpreter and the C library look at when a process starts.
READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "ASAN_", "TSAN_", "TZ")


class ProcessStarts:
    """Starts each process of a run once."""

    def __init__(
        self, plan: Plan, folder: RunFolder, debug: Mapping[str, Sequence[str]], terminal: str | None = None
    ) -> None:
        """Begin with nothing started.

        Args:
            plan: what is to run.
            folder: of the run.
            debug: instances that start under a tool, with the tool and its arguments.
            terminal: the device that such an instance gets; `None`: its streams are captured as usual.
        """
        self.processes = members(plan)
        self._plan = plan
        self._folder = folder
        self._debug = debug
        self._terminal = terminal
        self._launchers = {
            each.name
            for each in here(plan).instances
            if each.command and os.path.basename(each.command[0]) == MPI_LAUNCHER
        }
        self._unstarted = {each.name for each in plan.instances if each.process is None and each.rank_of is None}
        self._unstarted.update(self.processes)
        self._python = {site.name: site.python for site in plan.sites}
        alike = [each.name for each in plan.instances if each.process is None and self._can_be_forked(each)]
        alike += self.processes
        self._forked = frozenset(alike if len(alike) >= FORKED_FROM else ())

    def start_ready(self, executor: Executor, coordinator: Sequence[str], binding: Binding) -> None:
        """Start every process that can be started and has not been.

        Args:
            executor: starts them.
            coordinator: the addresses of the coordinator.
            binding: to cores of this machine.
        """
        ready = self._unstarted - executor.late
        self._unstarted -= ready
        joining = self.joining_environment(coordinator)
        for instance in self._plan.instances:
            if instance.name in ready:
                executor.start(self._of_instance(instance, executor, joining, binding))
        for process, instances in self.processes.items():
            if process in ready:
                executor.start(self._of_shared(process, instances, joining, binding))

    def environment(self) -> dict[str, str]:
        """Return what is added to the environment of every process, also of a build."""
        tools = os.path.dirname(sys.executable)
        return {
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "XMML_RUN_DIR": str(self._folder.path),
            "XMML_MODEL_DIR": self._plan.model_folder,
        }

    def joining_environment(self, coordinator: Sequence[str]) -> dict[str, str]:
        """Return what is added to the environment of every process that joins the run.

        Args:
            coordinator: the addresses of the coordinator.
        """
        return {
            **self.environment(),
            "PYTHONUNBUFFERED": "1",
            "XMML_COORDINATOR": ",".join(coordinator),
            "XMML_SECRET_FILE": str(self._folder.secret_file),
        }

    def _can_be_forked(self, instance: PlannedInstance) -> bool:
        """Whether the fork server can start an instance: it runs in our interpreter, or that of its site, and nothing
        that it wants must be known when an interpreter starts."""
        return (
            instance.rank_of is None
            and instance.command[0] in (sys.executable, self._python.get(instance.site))
            and (instance.command[1] == "-c" or instance.command[1] == instance.program)
            and not os.path.isdir(instance.command[1])
            and not any(name.startswith(READ_AT_START) for name in instance.env)
            and instance.name not in self._debug
        )

    def _of_instance(
        self, instance: PlannedInstance, executor: Executor, joining: Mapping[str, str], binding: Binding
    ) -> ProcessStart:
        name, folder = instance.name, self._folder
        command = under_tool(instance, self._debug.get(name, ()))
        env = {
            **self._mpi_session(instance, executor),
            **binding.variables(name),
            **joining,
            "XMML_INSTANCE": name,
            "XMML_INSTANCE_DIR": str(folder.path / instance.folder),
            **instance.env,
        }
        return ProcessStart(
            name,
            in_image(command, instance, str(folder.path), self._plan.model_folder),
            env,
            Path(folder.work(instance)),
            Path(folder.log(name, "stdout")),
            Path(folder.log(name, "stderr")),
            self._terminal if name in self._debug else None,
            fork=name in self._forked,
            cpus=binding.cpus.get(name, ()),
        )

    def _mpi_session(self, instance: PlannedInstance, executor: Executor) -> dict[str, str]:
        """Give each MPI launcher of this machine a folder of its own (see `xmml_executors.mpi_sessions`)."""
        if instance.name not in self._launchers or SESSION_FOLDER_OF_MPI in os.environ:
            return {}
        import tempfile

        try:
            # Not in the run's folder: that may be on another machine's disk, and sockets need short paths.
            folder = tempfile.mkdtemp(prefix="xmml-mpi-")
        except OSError:
            return {}
        executor.remove_at_end(Path(folder))
        return {SESSION_FOLDER_OF_MPI: folder}

    def _of_shared(
        self, process: str, instances: Sequence[PlannedInstance], joining: Mapping[str, str], binding: Binding
    ) -> ProcessStart:
        """Return the start of a process that instances share, after writing what it hosts."""
        tasks = [
            {
                "name": instance.name,
                "task": json.loads(instance.env["XMML_HOST"]),
                "folder": os.path.relpath(self._folder.work(instance), process),
                "stdout": os.path.relpath(self._folder.log(instance.name, "stdout"), process),
                "stderr": os.path.relpath(self._folder.log(instance.name, "stderr"), process),
            }
            for instance in instances
        ]
        folder = Path(process)
        self._folder.write(f"{process}/{HOSTED}", json.dumps(tasks, ensure_ascii=False))
        return ProcessStart(
            process,
            SHARED_HOST_COMMAND,
            {**binding.variables(process), **joining, "XMML_HOSTED": HOSTED},
            folder,
            folder / "stdout",
            folder / "stderr",
            hosted=[instance.name for instance in instances],
            fork=process in self._forked,
            files=[folder / HOSTED],
            cpus=binding.cpus.get(process, ()),
        )


def under_tool(instance: PlannedInstance, tool: Sequence[str]) -> list[str]:
    """Return the command of an instance under a debugging tool; of an MPI program the ranks run under it, not the
    launcher."""
    command = list(instance.command)
    if not tool:
        return command
    program = command.index(instance.program) if instance.program in command and instance.cores > 1 else 0
    if instance.image is not None:
        program = command.index(instance.image) + 1
    return [*command[:program], *tool, *command[program:]]


def refusal(instance: PlannedInstance, report: protocol.Refused) -> str:
    """Return why the operating system did not start a program, in words that help."""
    program = instance.command[0]
    if report.errno == "ENOENT" and os.path.exists(program):
        return f"{program}: the interpreter that its first line names does not exist"
    if report.errno == "ENOEXEC":
        return f"{program} is neither a program for this machine nor a script with #! in its first line"
    return f"{program}: {explained(OSError(getattr(errno, report.errno, 0), report.error))}"
