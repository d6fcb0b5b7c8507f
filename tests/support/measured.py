"""What tests have measured (`record_property`), as a table at the end of a run of pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

#: The fixture `record_property`.
Record = Callable[[str, object], None]

#: Properties with a column of their own, where a test has them.
COLUMNS = ("messages", "faults", "recovery_s")
HEAD = ("test", *COLUMNS, "duration_s", "further")
TITLE = "what was measured"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table. Where tests run in several processes, this one has nothing of them but their reports."""
    reports = [each for outcome in ("passed", "failed") for each in terminalreporter.getreports(outcome)]
    if lines := table(reports):
        terminalreporter.section(TITLE)
        for line in lines:
            terminalreporter.write_line(line)


def table(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each test that has measured something, in columns, below a head; nothing if there is none."""
    rows = [row(report) for report in reports if report.when == "call" and report.user_properties]
    if not rows:
        return []
    widths = [max(len(line[at]) for line in (HEAD, *rows)) for at in range(len(HEAD))]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in (HEAD, *rows)]


def row(report: pytest.TestReport) -> tuple[str, ...]:
    # A test may measure the same thing several times: all of it is shown, in order.
    values: dict[str, str] = {}
    for name, value in report.user_properties:
        values[name] = f"{values[name]}/{text(value)}" if name in values else text(value)
    own = [values.pop(name, "") for name in COLUMNS]
    further = " ".join(f"{name}={value}" for name, value in values.items())
    return (report.nodeid.rpartition("/")[2], *own, f"{report.duration:.1f}", further)


def text(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
