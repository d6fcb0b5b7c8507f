"""Installing xMML at a site that has no internet: `xmml sites install`.

Its wheels are sent from here into a virtual environment in the site's folder, with the site's own Python.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xmml_planner.sites import Site

import xmml
from xmml.late_dataclass import dataclass
from xmml_sites.environment import LEAST_PYTHON, environment_as_it_works
from xmml_sites.installation.wheels import PythonKind, WheelMissing, collect, digest
from xmml_sites.ssh import Transport
from xmml_sites.ssh.remote_shell import path_word

__all__ = ["InstallationFailed", "Installed", "install"]

#: The newest Python that is looked for by its name.
NEWEST = 15
#: Lists what was installed, in the virtual environment.
NOTE = "xmml-wheels"
#: What an installed wheel takes of the disk, in relation to its own size, and a virtual environment alone [bytes].
UNPACKED, VENV_BYTES = 4.0, 40_000_000
LOOK_S, INSTALL_S = 120.0, 900.0
#: A kind of machine as `uname -m` has it: it becomes part of the name of a folder here.
_MACHINE = re.compile(r"\w{1,32}", re.ASCII)
#: Minor versions are lower.
_VERSIONS_END = 1000

_LOOK = """
import importlib.util, json, os, platform, sys
glibc = platform.libc_ver()
print("xmml-python", json.dumps({
    "python": sys.executable, "version": list(sys.version_info[:2]), "machine": os.uname().machine,
    "glibc": int(glibc[1].split(".")[1]) if glibc[0] == "glibc" else 0,
    "has_pip": importlib.util.find_spec("ensurepip") is not None and importlib.util.find_spec("venv") is not None,
}))
"""


#: Says which xMML a Python has, unless its environment was made by an installation, or by one that was interrupted.
_HAS_XMML = f"""
import os, sys, xmml, xmml_native
if not any(os.path.exists(os.path.join(sys.prefix, name)) for name in ("{NOTE}", "wheels")):
    print("xmml-installed", xmml.__version__)
"""


class InstallationFailed(Exception):
    """xMML cannot be installed there; the text says why and what to do."""


@dataclass(frozen=True)
class Installed:
    """What was done at a site, or would be.

    Attributes:
        python: the interpreter of the virtual environment, as the file of sites names it.
        is_named: the file of sites has it as `python` already.
        was_there: nothing had to be done.
        base: the Python there that the environment is made with; empty: there is one.
        wheels: how many are installed.
        sent: the names of those that were sent.
        sent_bytes: of the wheels that were sent.
    """

    python: str
    is_named: bool
    was_there: bool = False
    base: str = ""
    wheels: int = 0
    sent: tuple[str, ...] = ()
    sent_bytes: int = 0


@dataclass(frozen=True)
class _There:
    """What a look at a site has found.

    Attributes:
        base: its Python.
        free_bytes: `None`: not known.
        note: what was installed before; empty: nothing.
        venv: the version of Python that the virtual environment there has; empty: there is none, or it does not say.
        is_foreign: there is something at the place of the virtual environment that is none.
    """

    base: str
    version: tuple[int, int]
    kind: PythonKind
    has_pip: bool
    free_bytes: int | None
    note: str
    venv: str
    is_foreign: bool


async def install(
    site: Site,
    transport: Transport,
    *,
    wheels: Path | None = None,
    cache: Path,
    is_dry_run: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Installed:
    """Install xMML of the version here in a virtual environment at a site, if it is not there already.

    Args:
        wheels: a folder with wheels that are taken instead of those that are made here.
        cache: where wheels are made.
        is_dry_run: nothing is sent or changed.
        tell: says what happens.

    Raises:
        InstallationFailed: the site or this machine lacks something.
        TransportError: the site cannot be reached.
    """
    if await _has_xmml(site, transport):
        return Installed(site.python, is_named=True, was_there=True)
    python, folder = _place(site)
    is_named = python == site.python
    there = await _look(site, transport, folder)
    if there.is_foreign:
        raise InstallationFailed(
            f"python = {site.python} of {site.name} is no virtual environment: name one that is to be made, such as "
            f'python = "{site.work}/python/bin/python"'
        )
    tell(f"{site.name}: Python {there.version[0]}.{there.version[1]} ({there.base}) on {there.kind.machine}")
    try:
        files = await asyncio.to_thread(collect, there.kind, wheels, cache)
    except WheelMissing as error:
        raise InstallationFailed(str(error)) from None
    hashes = {file: await asyncio.to_thread(digest, file) for file in files}
    note = "".join(f"{hashes[file]} {file.name}\n" for file in sorted(files))
    if there.note == note:
        return Installed(python, is_named, was_there=True)
    if there.venv and there.venv != f"{there.version[0]}.{there.version[1]}":
        raise InstallationFailed(
            f"{folder} at {site.name} is a virtual environment of Python {there.venv}, and wheels are for Python "
            f"{there.version[0]}.{there.version[1]} now: remove that folder there, or name another place with "
            'python = "FOLDER/bin/python"'
        )
    if not there.has_pip:
        raise InstallationFailed(
            f"{there.base} at {site.name} cannot make a virtual environment with pip (on Debian: python3-venv is "
            "missing): name a module with a complete Python (modules)"
        )
    needs = int(UNPACKED * sum(file.stat().st_size for file in files)) + VENV_BYTES
    if there.free_bytes is not None and there.free_bytes < needs:
        raise InstallationFailed(
            f"{folder} at {site.name} has {there.free_bytes / 1e6:.0f} MB free, and about {needs / 1e6:.0f} MB are "
            'needed: make room, or name another place with python = "FOLDER/bin/python"'
        )
    missing = await _missing(transport, folder, hashes)
    sent, sent_bytes = tuple(file.name for file in missing), sum(file.stat().st_size for file in missing)
    done = Installed(python, is_named, False, "" if there.venv else there.base, len(files), sent, sent_bytes)
    if is_dry_run:
        return done
    tell(f"{site.name}: {len(missing)} of {len(files)} wheels are sent ({sent_bytes / 1e6:.1f} MB)")
    for file in missing:  # with nothing but a shell: our own program may not run there, but another build of xMML
        await transport.put(file, f"{folder}/wheels/{file.name}")
    await _unpack(site, transport, there.base, folder, [file.name for file in files], note)
    return done


def _place(site: Site) -> tuple[str, str]:
    """Return the interpreter that is to be, and the folder of its virtual environment; `python` of the file of sites
    names it if it is a path."""
    named = site.python
    if site.is_here or "/bin/python" not in named:
        named = f"{site.work}/python/bin/python"
    return named, named[: named.rindex("/bin/python")]


async def _has_xmml(site: Site, transport: Transport) -> bool:
    """Whether the Python that the file of sites names has the xMML of the version here, and not from an installation,
    whose wheels say more than a version."""
    script = f"{environment_as_it_works(site)}{path_word(site.python)} -P -c {shlex.quote(_HAS_XMML)} 2>/dev/null"
    answer = await transport.run(f"bash -lc {shlex.quote(script)}", timeout_s=LOOK_S)
    return f"xmml-installed {xmml.__version__}" in answer.stdout.splitlines()


async def _look(site: Site, transport: Transport, folder: str) -> _There:
    names = [f"python3.{minor}" for minor in range(NEWEST, LEAST_PYTHON[1] - 1, -1)]
    own = f"python3.{sys.version_info.minor}"  # the wheels that are here fit it
    candidates = " ".join(dict.fromkeys([own, *names, "python3", "python"]))
    script = (
        f"{environment_as_it_works(site)}for p in {candidates}; do command -v $p >/dev/null && "
        f"$p -c {shlex.quote(_LOOK)} 2>/dev/null; done; "
        f'd={path_word(folder)}; [ ! -f "$d/{NOTE}" ] || sed "s/^/xmml-note /" "$d/{NOTE}"; '
        '[ ! -f "$d/pyvenv.cfg" ] || '
        r"""sed -n 's/^version[_info]* *= *\([0-9]*\.[0-9]*\).*/xmml-venv \1/p' "$d/pyvenv.cfg"; """
        '[ ! -e "$d/bin" ] || [ -e "$d/pyvenv.cfg" ] || echo xmml-foreign; '
        'while [ ! -d "$d" ]; do d=$(dirname "$d"); done; '
        "echo xmml-free $(df -Pk \"$d\" | tail -n 1 | awk '{print $4}')"
    )
    answer = await transport.run(f"bash -lc {shlex.quote(script)}", timeout_s=LOOK_S)
    told = [line.partition(" ")[::2] for line in answer.stdout.splitlines()]
    pythons = [facts for word, text in told if word == "xmml-python" and (facts := _python(text))]
    fitting = [each for each in pythons if tuple(each["version"]) >= LEAST_PYTHON]
    if not fitting:
        versions = sorted({"{}.{}".format(*each["version"]) for each in pythons})
        found = f"only {', '.join(versions)}" if versions else "none"
        raise InstallationFailed(
            f"{site.name} has no Python {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]} or newer ({found}): "
            "name a module that has it (modules), or put its folder on the search path (setup)"
        )
    best = next((each for each in fitting if each["has_pip"]), fitting[0])
    free = next((text for word, text in told if word == "xmml-free"), "")
    return _There(
        base=best["python"],
        version=(best["version"][0], best["version"][1]),
        kind=PythonKind(best["version"][1], best["machine"], best["glibc"]),
        has_pip=best["has_pip"],
        free_bytes=int(free) * 1024 if free.isdigit() else None,
        note="".join(f"{text}\n" for word, text in told if word == "xmml-note"),
        venv=next((text for word, text in told if word == "xmml-venv"), ""),
        is_foreign=("xmml-foreign", "") in told,
    )


def _python(text: str) -> dict[str, Any] | None:
    """Return what a site says of a Python; `None`: that cannot be."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match told:
        case {"python": str(), "version": [3, int(minor)], "machine": str(machine), "glibc": int(glibc), "has_pip": _}:
            can_be = 0 <= minor < _VERSIONS_END and 0 <= glibc < _VERSIONS_END and _MACHINE.fullmatch(machine)
            return told if can_be else None
    return None


async def _missing(transport: Transport, folder: str, hashes: dict[Path, str]) -> list[Path]:
    """Return the wheels that an interrupted installation has not brought there."""
    there = await transport.hash_files([f"{folder}/wheels/{file.name}" for file in hashes])
    have = set(there.values())
    return [file for file, sha256 in hashes.items() if sha256 not in have]


async def _unpack(site: Site, transport: Transport, base: str, folder: str, names: list[str], note: str) -> None:
    """Make the virtual environment and install the wheels in it. What was there of another version is replaced; the
    note is written last, so that what was interrupted is done again."""
    wheels = " ".join(f'"$d/wheels/"{shlex.quote(name)}' for name in names)
    script = (
        f'{environment_as_it_works(site)}d={path_word(folder)}; rm -f "$d/{NOTE}"; '
        f'{{ [ -x "$d/bin/python" ] || {shlex.quote(base)} -m venv "$d"; }} && '
        '"$d/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall '
        f'{wheels} && cat > "$d/{NOTE}" && rm -rf "$d/wheels"'
    )
    done = await transport.run(f"bash -lc {shlex.quote(script)}", note, timeout_s=INSTALL_S)
    if done.status != 0:
        raise InstallationFailed(f"{site.name}: the wheels cannot be installed in {folder}: {done.said}")
