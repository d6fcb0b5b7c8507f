"""The program `mto` in the folder of a run, or of a job of a workflow, at a site.

It takes and gives the files there; for a run it also starts, watches and ends what runs there, and relays.

A site whose machine is of the same kind as this one gets a copy of ours. It stays with the staged files, so that it
travels once. Elsewhere the site's own `mto` is taken if it is of the same release.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import shlex

from xmml_native import __version__, mto

from xmml_sites.ssh import RemoteFileError, Transport, TransportError
from xmml_sites.ssh.remote_shell import path_word

#: Its name in that folder.
NAME = "mto"
_MISSING = "no-mto-for"
_RELEASE = f"mto {__version__}"
#: Exit statuses: of ours, if it cannot be copied or linked there; and of a shell that may not start it.
_NOT_COPIED = 75
_CANNOT_START = (126, 127)
#: Its file system may be slow.
_RUNS_WITHIN_S = 120.0


class ProgramUnusable(TransportError):
    """A site has no program that can be used; the text says what to do."""


def command_at(folder: str) -> str:
    """Return the command that serves a run or a job at a site; what it is to do follows (`mto site --help`).

    Args:
        folder: of the run or the job at the site.
    """
    return f"{shlex.quote(f'{folder}/{NAME}')} site --run {shlex.quote(folder)}"


def lasting_command_at(folder: str, store: str) -> str:
    """Return shell text as `command_at`, that becomes a program which may last longer than the run. It is executed by
    its name in the store, if it has one: NFS lets no folder be removed in which a file is being executed.

    Args:
        folder: of the run at the site.
        store: of staged files there.
    """
    kept, own = shlex.quote(_kept(store)), shlex.quote(f"{folder}/{NAME}")
    return f'mto={kept}; [ -x "$mto" ] || mto={own}; exec "$mto" site --run {shlex.quote(folder)}'


async def install_program(transport: Transport, folder: str, store: str, python: str) -> None:
    """Install our program in the folder of a run or a job.

    Args:
        folder: of the run or the job at the site.
        store: of staged files there.
        python: the site's Python; a program of another kind of machine may be beside it.

    Raises:
        TransportError: the site cannot be reached or written.
        ProgramUnusable: it has no program that can be used.
    """
    kind = f"{platform.system()} {platform.machine()}"
    kept = _kept(store)
    look = (
        f"f={shlex.quote(folder)}/{NAME}; kept={shlex.quote(kept)}; kind=$(uname -s -m); "
        f'if [ "$kind" = {shlex.quote(kind)} ]; then '
        '[ ! -x "$kept" ] || { touch "$kept"; ln -f "$kept" "$f" 2>/dev/null || cp "$kept" "$f" || '
        f"exit {_NOT_COPIED}; }}; "
        f'else own=$(command -v mto) || own=$(dirname "$(command -v {path_word(python)})")/mto; '
        f'[ ! -x "$own" ] || ln -sf "$own" "$f" || exit {_NOT_COPIED}; fi; '
        f'if [ -x "$f" ]; then "$f" --version; else echo {_MISSING} "$kind"; fi'
    )
    said = await transport.run(look, timeout_s=_RUNS_WITHIN_S)
    if said.stdout.strip() == f"{_MISSING} {kind}":
        await transport.put(mto.PROGRAM, kept)
        said = await transport.run(look, timeout_s=_RUNS_WITHIN_S)
    found = said.stdout.strip()
    if said.status == _NOT_COPIED:
        raise RemoteFileError(transport.site, f"putting {NAME} into {folder}", said.said)
    if said.status in _CANNOT_START:
        raise ProgramUnusable(
            transport.site,
            f"{folder}/{NAME} cannot be executed there: {said.said}; name another folder with work =, on a file system "
            "from which programs may run",
        )
    if said.status != 0:
        raise ProgramUnusable(
            transport.site,
            f"{folder}/{NAME} --version fails there with status {said.status}: {said.said}; run it there yourself to "
            "see why",
        )
    if found != _RELEASE:
        there = f"is {found.removeprefix(_MISSING).strip()}" if found.startswith(_MISSING) else f"has {found}"
        raise ProgramUnusable(
            transport.site,
            f"it {there}, and needs a program {_RELEASE} of its own, because this is {kind}: install xMML "
            f"{__version__} there; mto is looked for on the search path, and beside python = {python}",
        )


async def link_program(transport: Transport, folder: str) -> None:
    """Have our own program in the folder of a run at a site whose nodes see it, as they see our Python.

    Raises:
        TransportError: the site cannot be reached or written.
    """
    link = f"{folder}/{NAME}"
    done = await transport.run(f"ln -sf {shlex.quote(str(mto.PROGRAM))} {shlex.quote(link)}")
    if done.status != 0:
        raise RemoteFileError(transport.site, f"making {link}", done.said)


def _kept(store: str) -> str:
    """Return where the program stays among the staged files of a site."""
    return f"{store}/{_hash()}"


@functools.cache
def _hash() -> str:
    with mto.PROGRAM.open("rb") as program:
        return hashlib.file_digest(program, "sha256").hexdigest()
