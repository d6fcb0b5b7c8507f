"""Notices about jobs that wait in queues: why, until when, and for how long already."""

from __future__ import annotations

import time

from xmml_sites.batch import JobState, JobStatus

from xmml.late_dataclass import dataclass
from xmml_executors.launch.jobs.site_job import SiteJob
from xmml_executors.report import seconds

#: A job that has waited for less gets no notice [s].
WORTH_TELLING_S = 5.0
#: The pause between two lines about one job, if something has changed and if nothing has [s].
CHANGED_AFTER_S, UNCHANGED_AFTER_S = 30.0, 600.0
#: An expected start that moves by less has not changed [s, share of the time until then].
MOVED_S, MOVED_SHARE = 60.0, 0.2
DAY_S = 86_400.0


@dataclass(frozen=True)
class _Told:
    """The last notice about a job: when it was given, with which reason and which expected start, by our clock."""

    at: float
    reason: str
    start: float | None


class QueueNews:
    """Remembers since when jobs wait, and the last notice about each."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._told: dict[str, _Told] = {}

    def of(self, job: SiteJob, status: JobStatus, now: float) -> str | None:
        """Return the notice about a job; `None`: nothing worth a notice has changed.

        Args:
            now: monotonic seconds.
        """
        if status.state not in (JobState.WAITING, JobState.HELD):
            return None
        waited_s = now - self._since.setdefault(job.folder, now)
        start = None if status.starts_in_s is None else now + status.starts_in_s
        reason = status.reason or ("held" if status.state is JobState.HELD else "")
        told = self._told.get(job.folder)
        if waited_s < WORTH_TELLING_S or (told is not None and not _is_news(told, reason, start, now)):
            return None
        self._told[job.folder] = _Told(now, reason, start)
        words = f"job {job.id} pending" + (f" ({reason})" if reason else "")
        if status.starts_in_s is not None:
            words += f", expected {_clock_time(time.time() + status.starts_in_s, status.starts_in_s)}"
        return f"{words}, waited {seconds(waited_s)}"


def _is_news(told: _Told, reason: str, start: float | None, now: float) -> bool:
    if now - told.at >= UNCHANGED_AFTER_S:
        return True
    if start is None or told.start is None:
        has_moved = start is not told.start
    else:
        has_moved = abs(start - told.start) > max(MOVED_S, MOVED_SHARE * (told.start - now))
    return now - told.at >= CHANGED_AFTER_S and (reason != told.reason or has_moved)


def _clock_time(moment: float, ahead_s: float) -> str:
    return time.strftime("%H:%M" if ahead_s < DAY_S else "%Y-%m-%d %H:%M", time.localtime(moment))
