"""Looking at one site, through its transport: nothing is left there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import re
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from xmml_planner.sites import Site

from xmml.graphs.quantity_text import value_text
from xmml.units import Dimension
from xmml_sites.batch import SchedulerUnavailable, by_name
from xmml_sites.check.job_trial import job_trial
from xmml_sites.check.report import Finding, SiteReport, Verdict
from xmml_sites.environment import LEAST_PYTHON, environment_as_it_works, environment_lines
from xmml_sites.ssh import RemoteProcess, Transport, TransportError
from xmml_sites.ssh.remote_shell import guarded, path_word

#: A clock that is wrong by more makes the times of events and of queues hard to compare [s].
MOST_SKEW_S = 2.0
#: Less room than this in the work directory is worth a warning [bytes].
LITTLE_ROOM = 2**30
#: Bandwidth is measured for so long [s], over so many channels, in pieces of so many bytes.
SENDING_S = 0.7
STREAMS = 4
PIECE = 2**17


async def probe(site: Site, transport: Transport, version: str) -> SiteReport:
    """Look at a site; what cannot be looked at because something before it failed is left out.

    Args:
        version: of the xMML here, with which the one there is compared.
    """
    findings: list[Finding] = []
    try:
        findings.append(await _reached(site, transport))
        looks: list[Callable[[Site, Transport], Awaitable[Finding | None]]] = [
            _scheduler,
            _memory,
            _job,
            _work,
            _clock,
            lambda site, transport: _xmml(site, transport, version),
            _modules,
            _set_up_lines,
            _software,
            _mpi,
            _container,
        ]
        found = await asyncio.gather(*(look(site, transport) for look in looks))
        findings += [finding for finding in found if finding is not None]
    except TransportError as error:
        findings.append(Finding("reached", Verdict.FAILED, str(error)))
    except (OSError, StopAsyncIteration):  # among them, that time has passed
        text = "its commands end or fall silent before they have answered; does its login shell run commands?"
        findings.append(Finding("reached", Verdict.FAILED, text))
    return SiteReport(site.name, tuple(findings))


async def _reached(site: Site, transport: Transport) -> Finding:
    await transport.connect()
    answer = await transport.run('printf "%s@%s" "$(id -un)" "$(hostname)"')
    who = answer.stdout.strip()
    if site.ssh is None:
        return Finding("reached", Verdict.OK, f"this machine, {who}", {"login": who})
    round_trip_s = await _round_trip(transport)
    bandwidth = await _bandwidth(transport)
    text = f"{who}, {round_trip_s * 1e3:.3g} ms there and back, {bandwidth / 1e6:.3g} MB/s"
    return Finding("reached", Verdict.OK, text, {"login": who, "round_trip_s": round_trip_s, "bandwidth": bandwidth})


async def _round_trip(transport: Transport) -> float:
    """The shortest way of a line there and back [s]."""
    process = await transport.start("exec cat")
    lines = process.lines()
    least = float("inf")
    for _ in range(6):
        started = time.perf_counter()
        await process.write(b"?\n")
        await asyncio.wait_for(anext(lines), 20)
        least = min(least, time.perf_counter() - started)
    await process.close_stdin()
    await process.wait()
    return least


async def _bandwidth(transport: Transport) -> float:
    """What several channels carry together [bytes/s]."""
    readers = await asyncio.gather(*(transport.start("exec cat > /dev/null") for _ in range(STREAMS)))
    data = os.urandom(PIECE)
    started = time.perf_counter()

    async def fill(reader: RemoteProcess) -> int:
        sent = 0
        while time.perf_counter() < started + SENDING_S:
            await reader.write(data)
            sent += len(data)
        await reader.close_stdin()
        await reader.wait()
        return sent

    async with asyncio.timeout(120):
        sent = sum(await asyncio.gather(*(fill(reader) for reader in readers)))
    return sent / (time.perf_counter() - started)


async def _scheduler(site: Site, transport: Transport) -> Finding:
    scheduler = by_name(site.scheduler, site.dialect or "openpbs")
    answer = await transport.run(scheduler.version_command())
    try:
        version = scheduler.parse_version(answer)
    except SchedulerUnavailable as error:
        return Finding("scheduler", Verdict.FAILED, f'{error}; is scheduler = "{site.scheduler}" right?')
    free = scheduler.parse_free(await transport.run(scheduler.free_command(site.partition or "")))
    facts: dict[str, object] = {"version": version}
    name = "no batch system" if version == "none" else version
    if free is None and site.partition and scheduler.name == "slurm":
        return Finding("scheduler", Verdict.FAILED, f"{version}, but it has no partition {site.partition}", facts)
    if free is None:
        return Finding("scheduler", Verdict.OK, name, facts)
    facts.update(free_cores=free[0], cores=free[1])
    where = f" in {site.partition}" if site.partition else ""
    text = f"{name}, {free[0]} of {free[1]} cores{where} free now"
    if free[1] < site.all_cores:
        text += f"; the file of sites counts on {site.all_cores}"
        return Finding("scheduler", Verdict.WARNING, text, facts)
    return Finding("scheduler", Verdict.OK, text, facts)


async def _memory(site: Site, transport: Transport) -> Finding | None:
    """Whether a machine without a queue has the memory that the file of sites says; a queue is asked for a job."""
    if site.has_queue or site.memory_bytes is None:
        return None
    answer = await transport.run("cat /proc/meminfo")
    found = re.search(r"^MemTotal: *(\d+) kB$", answer.stdout, re.MULTILINE)
    if answer.status != 0 or not found:
        return None
    memory_bytes = int(found[1]) * 1024
    has, facts = value_text(memory_bytes, Dimension.DATA), {"bytes": memory_bytes}
    if memory_bytes < site.memory_bytes:
        wanted = value_text(site.memory_bytes, Dimension.DATA)
        return Finding("memory", Verdict.WARNING, f"{has}; the file of sites counts on {wanted}", facts)
    return Finding("memory", Verdict.OK, has, facts)


async def _job(site: Site, transport: Transport) -> Finding | None:
    return await job_trial(site, by_name(site.scheduler, site.dialect or "openpbs"), transport)


async def _work(site: Site, transport: Transport) -> Finding:
    # The folder need not be there yet: what counts is the one in which it would be made.
    script = (
        f'd={path_word(site.work)}; while [ ! -d "$d" ]; do d=$(dirname "$d"); done; '
        't=$(mktemp "$d/.xmml-check.XXXXXXXX") && head -c 65536 /dev/zero > "$t"; s=$?; '
        '[ -n "$t" ] && rm -f "$t"; [ $s = 0 ] || exit $s; df -Pk "$d" | tail -n 1'
    )
    answer = await transport.run(script)
    if answer.status != 0:
        text = f"{site.work} cannot be written: {answer.said}; make room, or set work = to a folder of yours"
        return Finding("work", Verdict.FAILED, text)
    row = answer.stdout.split()
    if len(row) < 4 or not row[3].isdigit():
        return Finding("work", Verdict.OK, f"{site.work} can be written", {"folder": site.work})
    free = int(row[3]) * 1024
    verdict = Verdict.OK if free >= LITTLE_ROOM else Verdict.WARNING
    text = f"{site.work} can be written, {free / 1e9:.3g} GB free"
    return Finding("work", verdict, text, {"folder": site.work, "free_bytes": free})


async def _clock(site: Site, transport: Transport) -> Finding | None:
    if site.is_here:
        return None
    before = time.time()
    answer = await transport.run("date +%s.%N")
    after = time.time()
    try:
        skew_s = float(answer.stdout) - (before + after) / 2
    except ValueError:
        return Finding("clock", Verdict.WARNING, f"date says {answer.said[:100]!r}")
    unsure_s = (after - before) / 2
    way = "ahead of" if skew_s > 0 else "behind"
    facts = {"skew_s": skew_s, "unsure_s": unsure_s}
    if abs(skew_s) > MOST_SKEW_S + unsure_s:
        text = f"{abs(skew_s):.1f} s {way} this machine's: times in reports will not fit; ask the site, or check yours"
        return Finding("clock", Verdict.WARNING, text, facts)
    return Finding(
        "clock", Verdict.OK, f"{abs(skew_s):.2f} s {way} this machine's (give or take {unsure_s:.2f})", facts
    )


async def _xmml(site: Site, transport: Transport, version: str) -> Finding:
    python = path_word(site.python)
    program = (
        "import sys; print('python ' + sys.version.split()[0]); "
        "import xmml, xmml_native; print('xmml ' + xmml.__version__)"
    )
    look = f"echo machine: $(uname -s -m); {_prepared(site)}{python} -c {shlex.quote(program)}"
    answer = await transport.run(look, timeout_s=120)
    there = re.search(r"^python ((\d+)\.(\d+)\S*)$", answer.stdout, re.MULTILINE)
    installed = re.search(r"^xmml (\S+)$", answer.stdout, re.MULTILINE)
    if answer.status != 0 or not there or not installed:
        said = answer.said if answer.stderr.strip() else f"nothing, with exit status {answer.status}"
        why = f"{site.python} has no xMML: {said}; xmml sites install {site.name} installs it there"
        if there and (int(there[2]), int(there[3])) < LEAST_PYTHON:
            least = ".".join(map(str, LEAST_PYTHON))
            remedy = f"if the site has a newer one, xmml sites install {site.name} finds it, and installs xMML with it"
            why = f"{site.python} is Python {there[1]}, and xMML needs {least} or newer; {remedy}"
        if f"machine: {platform.system()} {platform.machine()}\n" in answer.stdout:
            return Finding("xmml", Verdict.WARNING, f"{why}; only submodels in Python need it")
        return Finding("xmml", Verdict.FAILED, f"{why}, which a machine of another kind than this one needs")
    facts = {"version": installed[1], "python": there[1]}
    text = f"{installed[1]} with Python {there[1]} ({site.python})"
    if installed[1] != version:
        return Finding("xmml", Verdict.WARNING, f"{text}; here it is {version}: have the same at all sites", facts)
    return Finding("xmml", Verdict.OK, text, facts)


async def _modules(site: Site, transport: Transport) -> Finding | None:
    if not site.modules:
        return None
    words = " ".join(map(shlex.quote, site.modules))
    script = f'for m in {words}; do module load "$m" >/dev/null 2>&1 || echo "missing $m"; done; echo looked'
    answer = await transport.run(f"bash -lc {shlex.quote(script)}")
    missing = re.findall(r"^missing (.*)$", answer.stdout, re.MULTILINE)
    if "looked" not in answer.stdout:
        return Finding("modules", Verdict.FAILED, f"no module can be loaded: {answer.said}")
    if missing:
        text = f"cannot be loaded: {', '.join(missing)}; see what there is with: module avail"
        return Finding("modules", Verdict.FAILED, text, {"missing": missing})
    return Finding("modules", Verdict.OK, f"{', '.join(site.modules)} can be loaded")


async def _set_up_lines(site: Site, transport: Transport) -> Finding | None:
    """Whether the lines of `setup` work, each after the ones before it, as in a job."""
    if not site.setup:
        return None
    modules = [f"module load {shlex.quote(module)} >/dev/null 2>&1" for module in site.modules]
    lines = [guarded(line, f"{{ echo failed {number} $?; exit; }}") for number, line in enumerate(site.setup)]
    script = "\n".join([*modules, *lines, "echo worked"])
    answer = await transport.run(f"bash -lc {shlex.quote(script)}", timeout_s=120)
    failed = re.search(r"^failed (\d+) (\d+)$", answer.stdout, re.MULTILINE)
    if failed:
        said = f": {answer.stderr.strip()[-200:]}" if answer.stderr.strip() else ""
        text = f"the line {site.setup[int(failed[1])]!r} fails with exit status {failed[2]}{said}"
        return Finding("setup", Verdict.FAILED, text)
    if "worked" not in answer.stdout:
        return Finding("setup", Verdict.FAILED, f"its lines end the shell: {answer.said}")
    return Finding("setup", Verdict.OK, f"{len(site.setup)} lines work")


async def _software(site: Site, transport: Transport) -> Finding | None:
    """The names in `software` are the user's; one that is no command and no module is worth a word, not more."""
    if not site.software:
        return None
    words = " ".join(map(shlex.quote, site.software))
    script = (
        f'{environment_as_it_works(site)}for s in {words}; do command -v "$s" >/dev/null || '
        'module -t avail "$s" 2>&1 | grep -q . || echo "missing $s"; done'
    )
    answer = await transport.run(f"bash -lc {shlex.quote(script)}")
    missing = re.findall(r"^missing (.*)$", answer.stdout, re.MULTILINE)
    if missing:
        text = f"neither a command nor a module: {', '.join(missing)}"
        return Finding("software", Verdict.WARNING, text, {"missing": missing})
    return Finding("software", Verdict.OK, ", ".join(site.software))


async def _mpi(site: Site, transport: Transport) -> Finding | None:
    command = site.mpi.split()[0]
    answer = await transport.run(f"{_prepared(site)}command -v {shlex.quote(command)}")
    if answer.status != 0:
        return Finding("mpi", Verdict.WARNING, f"there is no {command}: MPI programs cannot be started")
    return Finding("mpi", Verdict.OK, answer.stdout.strip().splitlines()[-1])


async def _container(site: Site, transport: Transport) -> Finding | None:
    """Look for what the file of sites says starts programs in images."""
    if site.container is None:
        return None
    command = site.container.split()[0]
    answer = await transport.run(f"{_prepared(site)}sh -c {shlex.quote(f'{shlex.quote(command)} --version')}")
    if answer.status != 0:
        text = f"{command} does not answer, so programs cannot run in images: {answer.said}"
        return Finding("container", Verdict.FAILED, text)
    return Finding("container", Verdict.OK, answer.stdout.strip().splitlines()[-1])


def _prepared(site: Site) -> str:
    """The beginning of a command that runs in the environment of the site's programs."""
    if not environment_lines(site):
        return ""
    script = environment_as_it_works(site) + '"$@"'
    return f"bash -lc {shlex.quote(script)} bash "


@contextlib.asynccontextmanager
async def closing(transport: Transport) -> AsyncIterator[Transport]:
    """A transport for the length of a block."""
    try:
        yield transport
    finally:
        with contextlib.suppress(TransportError):
            await transport.close()
