"""Looking at a site that does not do what it is told."""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from xmml_planner.sites import Site
from xmml_sites.check.probe import _clock, _memory, _scheduler, _set_up_lines, _xmml, probe
from xmml_sites.check.report import Verdict
from xmml_sites.ssh.local import LocalTransport


class CommandsThatEndAtOnce(LocalTransport):
    """A login shell that answers a command but goes on with none."""

    async def start(self, command, *, lease_s=30.0):
        return await super().start("exit 0", lease_s=lease_s)


def test_a_site_whose_commands_end_at_once_is_reported_not_a_traceback():
    async def look():
        transport = CommandsThatEndAtOnce("alpha")
        try:
            return await probe(Site("alpha", ssh="alpha"), transport, "1.0")
        finally:
            await transport.close()

    report = asyncio.run(look())
    (finding,) = report.findings
    assert (finding.subject, finding.verdict) == ("reached", Verdict.FAILED)
    assert "before they have answered" in finding.text


@pytest.mark.parametrize(
    ("wrong_s", "verdict", "says"),
    [
        (0, Verdict.OK, "this machine's (give or take"),
        (90, Verdict.WARNING, "s ahead of this machine's: times in reports will not fit"),
        (-90, Verdict.WARNING, "s behind this machine's: times in reports will not fit"),
    ],
)
def test_a_clock_that_is_wrong_is_told(tmp_path, monkeypatch, wrong_s, verdict, says):
    clock = tmp_path / "date"
    clock.write_text(f"#!/bin/sh\nexec /bin/date -d '{wrong_s:+d} seconds' \"$@\"\n")
    clock.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    async def look():
        transport = LocalTransport("alpha")
        try:
            return await _clock(Site("alpha", ssh="alpha"), transport)
        finally:
            await transport.close()

    finding = asyncio.run(look())
    assert (finding.verdict, says in finding.text) == (verdict, True), finding.text
    assert finding.facts["skew_s"] == pytest.approx(wrong_s, abs=5 + finding.facts["unsure_s"])


def test_a_site_without_python_can_be_used_for_submodels_in_other_languages(tmp_path):
    async def look():
        transport = LocalTransport("here")
        try:
            return await probe(Site("here", work=str(tmp_path), python="/nowhere/python"), transport, "1.0")
        finally:
            await transport.close()

    found = {finding.subject: finding for finding in asyncio.run(look()).findings}
    assert found["xmml"].verdict is Verdict.WARNING
    assert "/nowhere/python has no xMML: " in found["xmml"].text
    assert "only submodels in Python need it" in found["xmml"].text


def test_why_a_python_has_no_xmml_is_told_in_one_line(tmp_path):
    without = tmp_path / "python"
    without.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n'
    )  # without the packages of the environment
    without.chmod(0o755)
    site = Site("here", work=str(tmp_path / "work"), python=str(without))

    async def look():
        transport = LocalTransport("here")
        try:
            return await probe(site, transport, "1.0")
        finally:
            await transport.close()

    text = {finding.subject: finding.text for finding in asyncio.run(look()).findings}["xmml"]
    assert f"{without} has no xMML: ModuleNotFoundError: No module named" in text
    assert "\n" not in text


def test_a_python_that_is_too_old_is_named_with_the_version_that_is_needed(tmp_path):
    old = tmp_path / "python"
    # Says the line that the Python 3.6 of an old cluster would say, and fails as that does.
    old.write_text("#!/bin/sh\necho python 3.6.8\necho 'ImportError: No module named xmml' >&2\nexit 1\n")
    old.chmod(0o755)

    async def look():
        transport = LocalTransport("here")
        try:
            return await _xmml(Site("here", python=str(old)), transport, "1.0")
        finally:
            await transport.close()

    finding = asyncio.run(look())
    assert finding.verdict is Verdict.WARNING
    assert finding.text.startswith(f"{old} is Python 3.6.8, and xMML needs 3.11 or newer; ")
    assert "xmml sites install here finds it" in finding.text


@pytest.mark.parametrize(
    ("missing", "verdict", "says"),
    [(0, Verdict.OK, " free now"), (1, Verdict.WARNING, "; the file of sites counts on ")],
)
def test_the_cores_of_this_machine_are_compared_whatever_openmp_may_use_of_them(monkeypatch, missing, verdict, says):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    has = len(os.sched_getaffinity(0))

    async def look():
        transport = LocalTransport("here")
        try:
            return await _scheduler(Site("here", cores=has + missing), transport)
        finally:
            await transport.close()

    finding = asyncio.run(look())
    assert (finding.verdict, finding.facts["cores"]) == (verdict, has)
    assert says in finding.text


@pytest.mark.parametrize(
    ("wanted", "verdict", "says"),
    [(2**20, Verdict.OK, ""), (2**60, Verdict.WARNING, "; the file of sites counts on 1.153 EB")],
)
def test_the_memory_of_a_machine_without_a_queue_is_compared(wanted, verdict, says):
    async def look():
        transport = LocalTransport("here")
        try:
            return await _memory(Site("here", memory_bytes=wanted), transport)
        finally:
            await transport.close()

    finding = asyncio.run(look())
    has = int(re.search(r"MemTotal: *(\d+)", Path("/proc/meminfo").read_text())[1]) * 1024
    assert finding.verdict is verdict
    assert finding.facts == {"bytes": has}
    assert finding.text.endswith(says)


@pytest.mark.parametrize(
    ("setup", "verdict", "says"),
    [
        (("export DATA=data  # for all", "# nothing", "test $DATA = data"), Verdict.OK, "3 lines work"),
        (("true", "false  # for all"), Verdict.FAILED, "the line 'false  # for all' fails with exit status 1"),
    ],
)
def test_lines_of_the_set_up_may_have_comments(setup, verdict, says):
    async def look():
        transport = LocalTransport("alpha")
        try:
            return await _set_up_lines(Site("alpha", setup=setup), transport)
        finally:
            await transport.close()

    found = asyncio.run(look())
    assert (found.verdict, found.text) == (verdict, says)
