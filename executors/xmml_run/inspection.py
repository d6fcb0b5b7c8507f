"""Looking at a run from outside, while it goes on or afterwards: all from its folder."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from xmml_executors.conduit_figures import from_events
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.launch.site.journal import JOURNAL, read_journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError
from xmml_executors.queries import AskStatus
from xmml_executors.run_folder import DOOR, EVENTS, SECRET
from xmml_executors.run_lock import LOCK, is_owned
from xmml_executors.run_outputs import read_events
from xmml_executors.run_seal import LARGEST_PLAN_BYTES, SEAL, NotOurs, sealed_run
from xmml_planner import Plan, PlanFormatError, opened_conduit, plan_from_text

from xmml.late_dataclass import dataclass
from xmml_run.detach import OUTPUT
from xmml_run.errors import NotARun
from xmml_run.file_growth import wait_for_growth
from xmml_run.run_queries import ask

#: How long to wait for logs to grow before looking whether the run goes on.
LOOK_EVERY_S = 0.5
READ_CHARACTERS = 64 * 1024

#: What xMML writes into the folder of a run itself.
FILES = (
    "plan.json",
    EVENTS,
    JOURNAL,
    LOCK,
    SEAL,
    SECRET,
    DOOR,
    OUTPUT,
    "model.xmml",
    "report.html",
    "profile.json",
    "provenance.json",
)


@dataclass(frozen=True)
class RunView:
    """A run seen from its folder.

    Attributes:
        state: `waiting` while its jobs wait in queues, `running`, `ending` while its results are fetched, or the word
            of its exit status; `lost` if it ended without a word (kill -9, loss of power), `cancelled` when then
            `xmml cancel` has removed what it had at its sites.
        instances: the site and the numbers of each instance.
        conduits: how each conduit travels, and what has passed it.
        sites: of a run over sites that goes on or is lost, what was last told of each.
        not_bound: why processes are not bound to cores, if that is worth a word.
        foreign: why the folder is only looked at: no run of this user has made it. Empty: one has.
    """

    folder: OpenFolder
    state: str
    reason: str
    instances: Mapping[str, dict[str, Any]]
    wall_s: float | None
    conduits: Sequence[Mapping[str, Any]] = ()
    sites: Mapping[str, str] = field(default_factory=dict)
    not_bound: str = ""
    foreign: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "state": self.state,
            "reason": self.reason or None,
            "run_dir": str(self.folder.path),
            "wall_s": self.wall_s,
            "instances": dict(self.instances),
            "conduits": [dict(conduit) for conduit in self.conduits],
            "sites": dict(self.sites),
            "not_bound": self.not_bound or None,
            "foreign": self.foreign or None,
        }


def open_run(folder: Path) -> OpenFolder:
    """Open the folder of a run.

    Raises:
        NotARun: there is no such folder, or it cannot be read.
    """
    try:
        return OpenFolder(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_run(folder) from None
    except OSError as error:
        raise NotARun(f"{folder} cannot be read: {error.strerror}") from None


def _no_run(folder: Path) -> NotARun:
    return NotARun(f"{folder} is not the folder of a run; runs are in runs/<model>-<time>")


def read_own_run(folder: OpenFolder) -> RunView:
    """Return the state of a run, to do with it what its folder says.

    Raises:
        NotARun: the folder holds none, or no run of this user has made it.
    """
    view = read_run(folder)
    if view.foreign:
        raise NotARun(f"{view.foreign}; it can only be looked at")
    return view


def read_run(folder: OpenFolder) -> RunView:
    """Return the state of the run in a folder.

    Raises:
        NotARun: the folder holds none.
    """
    _refuse_links(folder)
    try:
        sealed_run(folder)
    except NotOurs as error:
        foreign = str(error)
    else:
        return _read_run(folder)
    try:
        _check_files(folder)
        return replace(_read_run(folder, is_own=False), foreign=foreign)
    except (KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError):
        raise NotARun(f"{foreign}, and its files are not those of a run") from None


def _refuse_links(folder: OpenFolder) -> None:
    """Check that no file that xMML writes into the folder of a run is a link.

    Raises:
        NotARun: one is.
    """
    for name in FILES:
        found = folder.status(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise NotARun(f"{folder.path / name} is a symbolic link, and xMML follows none in the folder of a run")


def _check_files(folder: OpenFolder) -> None:
    """Check that what is read of a foreign folder can be read to its end.

    Raises:
        ValueError: something is no file, or too large.
    """
    for name in ("plan.json", EVENTS, LOCK):
        found = folder.status(name)
        if found is not None and (not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_PLAN_BYTES):
            raise ValueError(name)


def _read_run(folder: OpenFolder, *, is_own: bool = True) -> RunView:
    try:
        plan = plan_from_text(folder.read("plan.json").decode())
        events = list(read_events(folder))
        plan = plan.with_opened(opened_conduit(each["conduit"]) for each in events if each["what"] == "opened")
    except FileNotFoundError:
        raise _no_run(folder.path) from None
    except PlanFormatError as error:
        raise NotARun(f"{folder.path}: {error}") from None
    not_bound = next((event["reason"] for event in reversed(events) if event["what"] == "not bound"), "")
    conduits = [each.as_json() for each in from_events(plan.conduits, events)]
    if events and events[-1]["what"] == "run ended":
        last = events[-1]
        how = (last["status"], last["reason"] or "")
        rows = _with_sites(last["instances"], plan)
        return RunView(folder, *how, rows, last["wall_s"], conduits, not_bound=not_bound)
    sites = _last_words(events)
    live = ask(folder, AskStatus()) if is_own else None
    if live is not None:
        rows = _with_sites(live["instances"], plan)
        return RunView(folder, going(rows, sites), "", rows, None, live["conduits"], sites, not_bound)
    rows = {instance.name: InstanceRecord(instance.name).as_json() for instance in plan.instances}
    is_stopping = False
    cpus: dict[str, str] = {}
    for event in events:
        if event["what"] == "bound":
            cpus.update(event["cpus"])
        elif event["what"] == "not bound":
            for process in event.get("processes", ()):
                cpus.pop(process, None)
        is_stopping |= event["what"] == "stopping"
        if event["instance"] in rows:
            _update(rows[event["instance"]], event, is_stopping=is_stopping)
    for instance in plan.instances:
        rows[instance.name]["cpus"] = cpus.get(instance.process or instance.rank_of or instance.name)
    if not is_owned(folder):
        state = "lost"
        if is_own and _is_cancelled(folder):
            state, sites = "cancelled", {}
            for row in rows.values():
                row["state"] = "stopped" if row["state"] in ("started", "running", "left") else row["state"]
    elif any(event["what"] == "ending" for event in events):
        state = "ending"
    else:
        state = going(rows, sites)
    return RunView(folder, state, "", _with_sites(rows, plan), None, conduits, sites, not_bound)


def _is_cancelled(folder: OpenFolder) -> bool:
    """Whether `xmml cancel` has removed what a run had at its sites whose `xmml-run` was killed."""
    try:
        told = read_journal(folder)
    except SiteError:  # who asks what can be done about the run is told
        return False
    return told is not None and told.is_cancelled


def _with_sites(rows: Mapping[str, dict[str, Any]], plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the numbers of each instance with the site where it runs."""
    sites = {instance.name: instance.site for instance in plan.instances}
    return {name: {"site": sites[name], **row} for name, row in rows.items()}


def _last_words(events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what was last told of each site about which something was told."""
    sites: dict[str, str] = {}
    for event in events:
        if event["what"] == "site" and event["about"]:
            sites[event["about"]] = event["text"]
        elif event["what"] == "site progress":
            sites[event["site"]] = event["doing"] or "done"
    return sites


def going(instances: Mapping[str, Mapping[str, Any]], sites: Mapping[str, str]) -> str:
    """Return the state of a run that goes on.

    Args:
        instances: as in `RunView`.
        sites: what was last told of each; a queue tells of jobs that are pending.
    """
    has_begun = any(row["state"] != "planned" for row in instances.values())
    return "running" if has_begun or not any(" pending" in told for told in sites.values()) else "waiting"


_STATES = {
    "started": "started",
    "joined": "running",
    "left": "left",
    "lost": "failed",
    "failed": "failed",
    "died": "died",
}


def _update(row: dict[str, Any], event: Mapping[str, Any], *, is_stopping: bool) -> None:
    what = event["what"]
    if row["state"] == "died":  # what is told of it later follows from that
        return
    if is_stopping and what in ("lost", "ended"):  # because the run stops it, unless it has failed before
        row["state"] = "stopped" if row["state"] != "failed" else "failed"
        return
    row["state"] = _STATES.get(what, row["state"])
    if what == "started":
        row["process"] = event.get("process")
    if what == "joined":
        row["host"] = event["host"]
    if what == "progress":
        for key in ("messages_sent", "messages_received", "bytes_sent", "bytes_received"):
            row[key] = event[key]
    if what == "ended":
        row["state"] = "done" if row["state"] == "left" and event["status"] == 0 else "failed"


def follow(files: Sequence[str], folder: OpenFolder, go_on: bool) -> Iterator[str]:
    """Yield what files of a run hold; with `go_on`, also what is added until the run has ended.

    Raises:
        NotARun: one of them cannot be read.
    """
    positions = dict.fromkeys(files, 0)
    ended = not go_on
    while True:
        for file in files:
            yield from _new_text(folder, file, positions)
        if ended:
            return
        ended = not is_owned(folder)
        if not ended:
            wait_for_growth([folder.lasting_path / file for file in files], LOOK_EVERY_S)


def _new_text(folder: OpenFolder, file: str, positions: dict[str, int]) -> Iterator[str]:
    try:
        with TextIOWrapper(folder.open_to_read(file), encoding="utf-8", errors="replace", newline="") as opened:
            opened.seek(positions[file])
            while text := opened.read(READ_CHARACTERS):
                yield text
            positions[file] = opened.tell()
    except FileNotFoundError:
        return
    except OSError as error:
        raise NotARun(f"{error.filename}: {error.strerror}") from None
