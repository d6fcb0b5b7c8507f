"""The body of a job's script, which is the same under every batch system, and the files by which it tells how it goes.

In the job's folder: `started` appears when the script begins, `result` when it has ended, each written under another
name first, so that whoever reads it reads all of it. Both are lines of `name=value`.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from xmml.late_dataclass import dataclass
from xmml_sites.batch.scheduler import JobScript
from xmml_sites.ssh.remote_shell import guarded

STARTED = "started"
RESULT = "result"
STDOUT = "stdout"
STDERR = "stderr"

#: How long the command may take to end by itself when the job is told to end [s]. Batch systems kill after 5 to 30 s.
GRACE_S = 3

#: The longest result that is believed [characters].
LONGEST = 4096

_FUNCTIONS = r"""
umask 077
xmml_began=$(date +%s)
xmml_phase=folder
xmml_detail=
xmml_tell() { # FILE STATUS: writes what is known, at once or not at all
    printf 'status=%s\nphase=%s\ndetail=%s\nhost=%s\nbegan=%s\nnow=%s\n' "$2" "$xmml_phase" "$xmml_detail" \
        "$(hostname)" "$xmml_began" "$(date +%s)" > "$xmml_folder/$1.part" &&
        mv -f "$xmml_folder/$1.part" "$xmml_folder/$1"
}
xmml_end() { # STATUS
    trap '' TERM INT HUP
    xmml_tell result "$1"
    @LAST@
}
xmml_stop() { # told to end: so does everything in our process group, by itself if it can
    trap '' TERM INT HUP
    kill -TERM 0
    for ((i = 0; i < 10 * xmml_grace; i++)); do
        [ -n "$xmml_child" ] && kill -0 "$xmml_child" 2>/dev/null || break
        sleep 0.1
    done
    xmml_detail=$xmml_phase
    xmml_phase=stopped
    [ $(($(date +%s) - xmml_began)) -ge $((xmml_walltime - 2)) ] && xmml_phase=walltime
    xmml_tell result 143
    kill -KILL 0
}
trap xmml_stop TERM INT HUP
"""


def captured(folder: str) -> str:
    """Return the line that has a script write what it prints into the files of its folder, and read nothing."""
    return f"exec >{shlex.quote(f'{folder}/{STDOUT}')} 2>{shlex.quote(f'{folder}/{STDERR}')} </dev/null"


def body(job: JobScript, *, last: str = 'exit "$1"') -> str:
    """What a job's script does, as text for bash; `last` is what it does when all is told, with the status in `$1`."""
    lines = [
        f"xmml_folder={shlex.quote(job.folder)}",
        f"xmml_walltime={int(job.walltime_s)}",
        f"xmml_grace={GRACE_S}",
        "xmml_child=",
        _FUNCTIONS.strip().replace("@LAST@", last),
        'cd -- "$xmml_folder" || exit 72',
        f"xmml_tell {STARTED} 0 || exit 73",
        "xmml_phase=module",
    ]
    for module in job.modules:
        lines += [f"xmml_detail={shlex.quote(module)}", f"module load {shlex.quote(module)} || xmml_end $?"]
    lines.append("xmml_phase=setup")
    for line in job.setup:
        lines += [f"xmml_detail={shlex.quote(_one_line(line))}", guarded(line, "xmml_end $?")]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(job.env.items())]
    lines += [
        "xmml_phase=command",
        "xmml_detail=",
        "(",
        "trap - TERM INT HUP",
        f"umask {job.umask:03o}",
        job.command,
        ") &",
        "xmml_child=$!",
        'wait "$xmml_child"',
        "xmml_status=$?",
        # Ended by the signal that tells jobs to end: the same signal may be on its way to us.
        '[ "$xmml_status" = 143 ] && sleep 0.5',
        'xmml_end "$xmml_status"',
    ]
    return "\n".join(line for line in lines if line) + "\n"


def umask_of_this_process() -> int:
    """Return the umask. Only reading it leaves alone what other threads create meanwhile, so `os.umask` will not do."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))


def all_steps(job: JobScript, starts: Sequence[str]) -> str:
    """Return shell text that starts the steps of a job, waits for all, and exits with the first status that is not 0.

    Args:
        starts: the command that starts each step. It is in the process group that is told when the job is to end.
    """
    lines = ["trap : TERM INT HUP", "xmml_steps=()"]
    for step, start in zip(job.steps, starts, strict=True):
        failed = step.on_failure or ":"
        lines += [
            "{",
            "    trap : TERM INT HUP",
            f"    {start} </dev/null || {{ xmml_status=$?; {failed}; exit $xmml_status; }}",
            "} &",
            "xmml_steps+=($!)",
        ]
    lines += [
        "xmml_worst=0",
        'for xmml_step in "${xmml_steps[@]}"; do',
        '    while wait "$xmml_step"; xmml_status=$?; kill -0 "$xmml_step" 2>/dev/null; do :; done',
        "    [ $xmml_worst = 0 ] && xmml_worst=$xmml_status",
        "done",
        "exit $xmml_worst",
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


@dataclass(frozen=True)
class JobResult:
    """How a job ended, by its own words.

    Attributes:
        status: the exit status of what ended it.
        phase: what it was doing: `module`, `setup`, `command`; `stopped`: it was told to end; `walltime`: for that
            reason.
        detail: the module or the line of the set-up; of a stopped job the phase it was in.
        began, ended: seconds of the site's clock.
    """

    status: int
    phase: str
    detail: str
    host: str
    began: int
    ended: int


def read_result(text: str) -> JobResult:
    """Read the file `result` (or `started`) of a job.

    Raises:
        ValueError: it is not what our script writes.
    """
    if len(text) > LONGEST:
        raise ValueError(f"the result of a job has {len(text)} characters, more than {LONGEST}")
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return JobResult(
            status=int(found["status"]),
            phase=found["phase"],
            detail=found["detail"],
            host=found["host"],
            began=int(found["began"]),
            ended=int(found["now"]),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"this is not the result of a job: {text[:200]!r}") from error
