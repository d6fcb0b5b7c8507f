"""What the thread of the sites reports to a run."""

from __future__ import annotations

import os
import select

from xmml_executors.executor import SiteNotice
from xmml_executors.launch.report_queue import ReportQueue


def test_the_descriptor_says_that_there_are_reports_until_they_are_taken() -> None:
    reports = ReportQueue()
    assert reports.take() == []
    reports.put(SiteNotice("first"))
    reports.put(SiteNotice("second"))
    assert select.select([reports], [], [], 0)[0] == [reports]
    assert reports.take() == [SiteNotice("first"), SiteNotice("second")]
    assert select.select([reports], [], [], 0)[0] == []
    reports.close()


def test_what_nobody_has_taken_is_returned_at_the_end() -> None:
    reports = ReportQueue()
    reports.put(SiteNotice("late"))
    assert reports.close() == [SiteNotice("late")]


def test_what_is_reported_after_the_end_goes_into_no_file_that_another_run_has_opened() -> None:
    reports = ReportQueue()
    number = reports.fileno()
    reading, writing = os.pipe2(os.O_NONBLOCK)
    reports.close()
    os.dup2(writing, number)
    try:
        reports.put(SiteNotice("too late"))
        assert select.select([reading], [], [], 0)[0] == []
    finally:
        for descriptor in {reading, writing, number}:
            os.close(descriptor)
