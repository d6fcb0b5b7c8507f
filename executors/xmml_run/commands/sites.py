"""`xmml sites`: log in to sites and say whether a run could use them, or install xMML there."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from xmml_executors.outcome import ExitStatus

import xmml
from xmml_run.terminal_text import shown

if TYPE_CHECKING:
    from xmml_planner.sites import Site, SiteCatalogue
    from xmml_sites.installation import Installed

DESCRIPTION = (
    "Log in to the sites of a file and say of each whether it can be used: batch system, free cores, work directory, "
    "clock, xMML, modules, and what lies between them. A host key that is not known yet is shown and asked about."
)

INSTALL = (
    "Install xMML of the version here in a virtual environment at a site, in one command and without internet there. "
    "Wheels are packed from what is installed here, sent, and installed by the site's own Python (3.11 or newer), as "
    "modules and setup of the file of sites provide it. The environment is where python of the file of sites says, "
    "else in WORK/python. What is there already is not done again."
)


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="log in everywhere and report", description=DESCRIPTION)
    check.add_argument("site", metavar="SITE", nargs="*", help="these sites only (default: all)")
    check.add_argument("--sites", metavar="FILE", default="sites.toml", help="the file of sites (default: sites.toml)")
    check.add_argument("--json", action="store_true", help="print the report as JSON; ask nothing")
    check.add_argument("--write", action="store_true", help="write measured latency and bandwidth back into the file")
    install = actions.add_parser("install", help="install xMML at a site without internet", description=INSTALL)
    install.add_argument("site", metavar="SITE", nargs="+", help="the sites")
    install.add_argument(
        "--sites", metavar="FILE", default="sites.toml", help="the file of sites (default: sites.toml)"
    )
    install.add_argument("--wheels", metavar="FOLDER", help="take wheels from here that fit the site's Python")
    install.add_argument("--dry-run", action="store_true", help="look at the site, and say what would be done")


def run(options: Namespace) -> int:
    """Check sites, or install xMML there."""
    from xmml_planner.sites import SitesError, read_sites

    try:
        catalogue = read_sites(options.sites)
    except SitesError as error:
        print(error, file=sys.stderr)
        return ExitStatus.USAGE
    unknown = [name for name in options.site if name not in catalogue.sites]
    if unknown:
        known = ", ".join(catalogue.sites) or "none"
        told = f"there is no site {unknown[0]} in {options.sites}, only: {known}"
        if unknown[0].endswith(".toml"):
            told += f"; a file of sites is named with --sites {unknown[0]}"
        print(f"xmml sites {options.action}: {told}", file=sys.stderr)
        return ExitStatus.USAGE
    return _install(catalogue, options) if options.action == "install" else _check(catalogue, options)


def _check(catalogue: SiteCatalogue, options: Namespace) -> int:
    from xmml_sites.check import check_sites, with_links

    from xmml_run.sites_report import report_lines

    names = options.site or list(catalogue.sites)
    if not options.json and sys.stdin.isatty():
        _meet([catalogue[name] for name in names])
    report = asyncio.run(check_sites(catalogue, names, xmml.__version__))
    print(json.dumps(report.as_json(), indent=2) if options.json else "\n".join(report_lines(report)))
    if options.write:
        file = Path(options.sites)
        before = file.read_text(encoding="utf-8")
        after = with_links(before, report.links)
        if after != before:
            part = file.with_name(file.name + ".part")
            part.write_text(after, encoding="utf-8")
            part.chmod(file.stat().st_mode & 0o777)
            part.replace(file)
    return ExitStatus.SITE_FAILED if report.has_failed else ExitStatus.DONE


def _install(catalogue: SiteCatalogue, options: Namespace) -> int:
    from xmml_sites.installation import InstallationFailed, install
    from xmml_sites.ssh import TransportError, open_transport

    wheels = Path(options.wheels) if options.wheels else None
    if wheels is not None and not wheels.is_dir():
        print(f"xmml sites install: there is no folder {wheels}", file=sys.stderr)
        return ExitStatus.USAGE
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xmml/wheels"

    async def one(site: Site) -> Installed:
        transport = open_transport(site)
        try:
            return await install(
                site, transport, wheels=wheels, cache=cache, is_dry_run=options.dry_run, tell=lambda text: print(text)
            )
        finally:
            with contextlib.suppress(TransportError):
                await transport.close()

    for name in options.site:
        try:
            done = asyncio.run(one(catalogue[name]))
        except (InstallationFailed, TransportError) as error:
            print(f"xmml sites install: {error}", file=sys.stderr)
            return ExitStatus.SITE_FAILED
        print("\n".join(_installed(name, done, is_dry_run=options.dry_run)))
    return ExitStatus.DONE


def _installed(name: str, done: Installed, *, is_dry_run: bool) -> list[str]:
    if done.was_there:
        lines = [f"{name}: xMML {xmml.__version__} is there already ({done.python})"]
    elif is_dry_run:
        lines = [f"{name}: {done.base} would make {done.python}"] if done.base else []
        sent = f"{len(done.sent)} of {done.wheels} wheels would be sent ({done.sent_bytes / 1e6:.1f} MB)"
        lines += [f"{name}: {sent}, and all installed in {done.python}:", *(f"  {wheel}" for wheel in done.sent)]
    else:
        lines = [f"{name}: xMML {xmml.__version__} is installed ({done.python})"]
    if not done.is_named:
        lines.append(f'{name}: in the file of sites set python = "{done.python}"')
    return lines


def _meet(sites: list[Site]) -> None:
    """Log in to each site once, with somebody at the terminal; what fails is told by the check itself."""
    from xmml_sites.ssh import TransportError
    from xmml_sites.ssh.destination import read_destination
    from xmml_sites.ssh.first_login import first_contact

    for site in sites:
        if site.ssh is None or site.like is not None or site.transport != "asyncssh":
            continue
        try:
            destination = read_destination(site.ssh)
            contact = first_contact(site.name, destination, _confirm, _answer)
        except (TransportError, ValueError):
            continue
        if contact.asked:
            print(
                f'{site.name} wants more than a key: set transport = "openssh" for it, set ControlMaster, ControlPath '
                f"and ControlPersist in ~/.ssh/config, and before a run log in with: {destination.command}"
            )


def _confirm(question: str) -> bool:
    return input(shown(f"{question} (yes/no) ")).strip().lower() in ("yes", "y")


def _answer(question: str, is_shown: bool) -> str:
    asked = shown(question)  # by the site; this goes to the terminal past the standard output
    return input(asked) if is_shown else getpass.getpass(asked)
