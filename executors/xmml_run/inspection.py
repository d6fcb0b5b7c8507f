"""Looking at a run from outside, while it goes on or afterwards: all from its folder."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from xmml_executors.conduit_figures import from_events
from xmml_executors.instance_record import InstanceRecord
from xmml_executors.run_lock import LOCK, is_owned
from xmml_executors.run_outputs import read_events
from xmml_executors.run_seal import NotOurs, sealed_run
from xmml_planner import Plan, PlanFormatError, plan_from_text

from xmml.late_dataclass import dataclass
from xmml_run.asking import ask
from xmml_run.errors import NotARun
from xmml_run.file_growth import wait_for_growth

#: How long to wait for logs to grow before looking whether the run goes on.
LOOK_EVERY_S = 0.5
READ_CHARACTERS = 64 * 1024

#: Larger files of a foreign folder are not read.
LARGEST_FOREIGN_BYTES = 1 << 30


@dataclass(frozen=True)
class RunView:
    """A run seen from its folder.

    Attributes:
        state: `waiting` while its jobs wait in queues, `running`, `ending` while its results are fetched, or the word
            of its exit status; `lost` if it ended without a word (kill -9, loss of power).
        instances: the site and the numbers of each instance.
        conduits: how each conduit travels, and what has passed it.
        sites: of a run over sites that goes on or is lost, what was last told of each.
        not_bound: why its processes on this machine are not bound to cores, if that is worth a word.
        foreign: why the folder is only looked at: no run of this user has made it. Empty: one has.
    """

    folder: Path
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
            "run_dir": str(self.folder),
            "wall_s": self.wall_s,
            "instances": dict(self.instances),
            "conduits": [dict(conduit) for conduit in self.conduits],
            "sites": dict(self.sites),
            "not_bound": self.not_bound or None,
            "foreign": self.foreign or None,
        }


def read_own_run(folder: Path) -> RunView:
    """Return the state of a run, to do with it what its folder says.

    Raises:
        NotARun: the folder holds none, or no run of this user has made it.
    """
    view = read_run(folder)
    if view.foreign:
        raise NotARun(f"{view.foreign}; it can only be looked at")
    return view


def read_run(folder: Path) -> RunView:
    """Return the state of the run in a folder.

    Raises:
        NotARun: the folder holds none.
    """
    try:
        sealed_run(folder)
    except NotOurs as error:
        foreign = str(error)
    else:
        return _read_run(folder)
    try:
        _check_files(folder)
        return replace(_read_run(folder, may_ask=False), foreign=foreign)
    except (KeyError, TypeError, ValueError, AttributeError, OSError):
        raise NotARun(f"{foreign}, and its files are not those of a run") from None


def _check_files(folder: Path) -> None:
    """Check that what is read of a foreign folder can be read to its end.

    Raises:
        ValueError: something is no file, or too large.
    """
    for name in ("plan.json", "events.jsonl", LOCK):
        with suppress(FileNotFoundError, NotADirectoryError):  # which is told of the run
            found = (folder / name).lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FOREIGN_BYTES:
                raise ValueError(name)


def _read_run(folder: Path, *, may_ask: bool = True) -> RunView:
    try:
        plan = plan_from_text((folder / "plan.json").read_text(encoding="utf-8"))
        events = list(read_events(folder))
        plan = plan.with_opened(event["conduit"] for event in events if event["what"] == "opened")
    except (FileNotFoundError, NotADirectoryError):
        raise NotARun(f"{folder} is not the folder of a run; runs are in runs/<model>-<time>") from None
    except PlanFormatError as error:
        raise NotARun(f"{folder}: {error}") from None
    not_bound = next((event["reason"] for event in reversed(events) if event["what"] == "not bound"), "")
    conduits = [each.as_json() for each in from_events(plan.conduits, events)]
    if events and events[-1]["what"] == "run ended":
        last = events[-1]
        how = (last["status"], last["reason"] or "")
        rows = _with_sites(last["instances"], plan)
        return RunView(folder, *how, rows, last["wall_s"], conduits, not_bound=not_bound)
    sites = _last_words(events)
    live = ask(folder, {"ask": "status"}) if may_ask else None
    if live is not None:
        rows = _with_sites(live["instances"], plan)
        return RunView(folder, going(rows, sites), "", rows, None, live["conduits"], sites, not_bound)
    rows = {instance.name: InstanceRecord(instance.name).as_json() for instance in plan.instances}
    is_stopping = False
    for event in events:
        if event["what"] in ("bound", "not bound"):
            for instance in plan.instances:
                process = instance.process or instance.rank_of or instance.name
                rows[instance.name]["cpus"] = event.get("cpus", {}).get(process)
        is_stopping |= event["what"] == "stopping"
        if event["instance"] in rows:
            _update(rows[event["instance"]], event, is_stopping=is_stopping)
    if not is_owned(folder):
        state = "lost"
    elif any(event["what"] == "ending" for event in events):
        state = "ending"
    else:
        state = going(rows, sites)
    return RunView(folder, state, "", _with_sites(rows, plan), None, conduits, sites, not_bound)


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


_STATES = {"started": "started", "joined": "running", "left": "left", "lost": "failed", "failed": "failed"}


def _update(row: dict[str, Any], event: Mapping[str, Any], *, is_stopping: bool) -> None:
    what = event["what"]
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


def follow(files: Sequence[Path], folder: Path, go_on: bool) -> Iterator[str]:
    """Yield what the files hold; with `go_on`, also what is added until the run has ended."""
    positions = dict.fromkeys(files, 0)
    ended = not go_on
    while True:
        for file in files:
            yield from _new_text(file, positions)
        if ended:
            return
        ended = not is_owned(folder)
        if not ended:
            wait_for_growth(files, LOOK_EVERY_S)


def _new_text(file: Path, positions: dict[Path, int]) -> Iterator[str]:
    try:
        with open(file, encoding="utf-8", errors="replace", newline="") as opened:
            opened.seek(positions[file])
            while text := opened.read(READ_CHARACTERS):
                yield text
            positions[file] = opened.tell()
    except FileNotFoundError:
        return
