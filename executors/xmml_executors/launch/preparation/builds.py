"""Making the programs of a plan at the sites that run them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from xmml_planner import Build, Plan
from xmml_planner.sites import Site
from xmml_sites.environment import environment_lines, required
from xmml_sites.ssh import TransportError
from xmml_sites.ssh.remote_shell import path_word

from xmml_executors.build_lock import LOOK_EVERY_S, BuildLock, waiting_in
from xmml_executors.executor import Tell
from xmml_executors.launch.site.run_site import RunSite
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError
from xmml_executors.run_folder import RunFolder

#: How compilers tell an error; what make adds to it says less.
ERROR = re.compile(r"\b(fatal )?error: |^Error: ", re.IGNORECASE)
#: A build that takes longer is ended.
BUILD_WITHIN_S = 3600.0
#: A build whose launcher is gone is ended after one to two times this long.
LEASE_S = 30.0


def builds_at(plan: Plan, sites: Collection[str]) -> list[tuple[Build, Site]]:
    """Return the builds of sites that share their files, each with the site, or part of one, in whose environment it
    runs: each command once in each environment."""
    at = {instance.name: instance.site for instance in plan.instances}
    described = {site.name: site for site in plan.sites}
    found: dict[tuple[str, ...], tuple[Build, Site]] = {}
    for build in plan.builds:
        parts = [build.site] if build.site else [at[name] for name in build.instances]
        for name in parts:
            if name in sites:
                part = described[name]
                found.setdefault((build.command, part.python, *environment_lines(part)), (build, part))
    return list(found.values())


async def build_at(site: RunSite, parts: Collection[str], plan: Plan, folder: RunFolder, tell: Tell) -> None:
    """Run the builds of a site and its parts on its login node, one after the other, in the folder of the model there.

    Raises:
        SiteError: one failed; its output is in the run's folder.
        TransportError: the site cannot be reached.
    """
    builds = builds_at(plan, parts)
    if not site.shares_files or not builds:
        await _build(site, builds, plan, folder, tell)
        return
    with BuildLock(Path(plan.model_folder)) as lock:
        if not lock.take():
            tell(waiting_in(plan.model_folder), site.name)
            while not lock.take():
                await asyncio.sleep(LOOK_EVERY_S)
        await _build(site, builds, plan, folder, tell)


async def _build(
    site: RunSite, builds: Sequence[tuple[Build, Site]], plan: Plan, folder: RunFolder, tell: Tell
) -> None:
    for number, (build, part) in enumerate(builds, 1):
        tell(f"building: {build.command}", site.name)
        log = f"builds/{site.name}-{number}.log"
        folder.files.make_folder("builds")
        lines = [
            *environment_lines(part),
            f'{{ ! p=$(command -v {path_word(part.python)}) || export PATH="$(dirname "$p"):$PATH"; }}',
        ]
        lines.append(f"cd {shlex.quote(plan.model_folder if site.shares_files else site.folder + '/model')}")
        text = required(lines) + build.command
        status, said = await _carried_out(site, text, folder.files, log)
        if status != 0:
            how = f"took longer than {BUILD_WITHIN_S:g} s" if status is None else f"ended with exit status {status}"
            raise SiteError(
                f"{build.instances[0]}: its build at {site.name}, {build.command}, {how}: {said or 'without a word'}; "
                f"see {folder.path / log}"
            )


async def _carried_out(site: RunSite, text: str, folder: OpenFolder, log: str) -> tuple[int | None, str]:
    """Run shell text as in a login and write what it says into a file, as it comes; return its exit status (`None`: it
    took too long) and what went wrong: the first error that a compiler has told, else the last of its words. Whatever
    ends the waiting ends also what runs there."""
    said, is_error = "", False
    process = await site.transport.start(
        f"{_noted(site, Path(log).stem)}exec {site.shell} {shlex.quote(text)} </dev/null 2>&1", lease_s=LEASE_S
    )
    try:
        async with asyncio.timeout(BUILD_WITHIN_S):
            opened = folder.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(opened, "w", buffering=1, encoding="utf-8") as file:
                async for line in process.lines():
                    file.write(line + "\n")
                    if not is_error:
                        is_error = ERROR.search(line) is not None
                        said = line.strip() or said
            return await process.wait(), said
    except BaseException as problem:
        with contextlib.suppress(TransportError):  # then its lease ends it
            await asyncio.shield(process.kill())
        if isinstance(problem, TimeoutError):
            return None, said
        raise


def _noted(site: RunSite, name: str) -> str:
    """Return shell text that notes in the run's folder there which process it is, so that whoever cleans up after a
    launcher that was killed, or goes on in its place, need not wait until the lease is over."""
    note = shlex.quote(f"{site.folder}/builds/{name}")
    return (
        f"mkdir -p {shlex.quote(site.folder + '/builds')} && "
        f'echo "$$ $(cut -d " " -f 22 /proc/$$/stat) $(uname -n)" > {note}\n'
    )
