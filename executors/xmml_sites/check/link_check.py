"""What lies between sites: which ports can be reached, how far away they are, how much goes through."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import secrets
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from xmml_planner.sites import Site, SiteCatalogue

from xmml_sites.check import link_program
from xmml_sites.check.report import LinkReport, SiteReport, Verdict
from xmml_sites.ssh import Transport, TransportError
from xmml_sites.ssh.command_result import CommandResult
from xmml_sites.ssh.failure import MOST_SHOWN
from xmml_sites.ssh.remote_shell import path_word
from xmml_sites.ssh.transport import RemoteProcess

TAKEN = "Address already in use"


async def links_between(
    catalogue: SiteCatalogue, reports: Mapping[str, SiteReport], transports: Mapping[str, Transport]
) -> tuple[LinkReport, ...]:
    """Measure between each two sites that answer, one pair after the other, so that none disturbs another."""
    names = [name for name in transports if catalogue[name].like is None]
    return tuple(
        [await _between(catalogue[one], catalogue[other], reports, transports) for one, other in combinations(names, 2)]
    )


async def _between(
    one: Site, other: Site, reports: Mapping[str, SiteReport], transports: Mapping[str, Transport]
) -> LinkReport:
    between = (one.name, other.name)
    if one.is_here or other.is_here:
        return _over_ssh(between, reports[other.name if one.is_here else one.name])
    tried: list[str] = []
    for here, there in ((one, other), (other, one)):
        address = _listens(there)
        if address is None:
            continue
        host, port = address
        try:
            answer = await _measure(here, there, host, port, transports)
        except TransportError as error:
            return LinkReport(between, Verdict.FAILED, str(error))
        if "bandwidth" in answer:
            text = f"{host}:{port} can be reached from {here.name}"
            return LinkReport(between, Verdict.OK, text, answer["round_trip_s"] / 2, answer["bandwidth"])
        if "reached" in answer:
            text = f"{host}:{port} can be reached from {here.name}; it is in use, so nothing was measured"
            return LinkReport(between, Verdict.OK, text)
        if "unknown" in answer:
            return LinkReport(between, Verdict.WARNING, f"not measured: {answer['unknown']}")
        tried.append(f"{host}:{port} cannot be reached from {here.name}: {answer['error'].lower()}")
    if tried:
        advice = "check the firewall, and listen = of its relay"
        return LinkReport(between, Verdict.FAILED, f"{'; '.join(tried)}; {advice}")
    return LinkReport(
        between, Verdict.OK, "neither has a relay that listens: their relays meet through the ssh connections from here"
    )


def _over_ssh(between: tuple[str, str], report: SiteReport) -> LinkReport:
    facts = next((finding.facts for finding in report.findings if finding.subject == "reached"), {})
    if "round_trip_s" not in facts:
        return LinkReport(between, Verdict.OK, "the same machine")
    return LinkReport(
        between, Verdict.OK, "over the ssh connection", facts["round_trip_s"] / 2, float(facts["bandwidth"])
    )


def _listens(site: Site) -> tuple[str, int] | None:
    if site.relay is None or not site.relay.listen:
        return None
    host, _, port = site.relay.listen.rpartition(":")
    return (host.strip("[]"), int(port)) if port.isdigit() else None


async def _measure(
    here: Site, there: Site, host: str, port: int, transports: Mapping[str, Transport]
) -> dict[str, Any]:
    """Let one site listen where its relay will, and the other dial it."""
    word = secrets.token_hex(16)
    server = await _started(transports[there.name], there, word, f"serve {port}")
    try:
        async with asyncio.timeout(30):
            told = json.loads(await anext(server.lines(), "{}"))
        match told:
            case {"port": int()}:
                return await _asked(transports[here.name], here, word, f"dial {path_word(host)} {port}")
            case {"error": str(error)} if error == TAKEN:
                return await _asked(transports[here.name], here, word, f"reach {path_word(host)} {port}")
            case {"error": str(error)}:
                return {"error": f"{error} at {there.name}"}
    except (ValueError, RecursionError, TimeoutError):
        pass  # as if it had said something else
    finally:
        await server.kill()
    return {"unknown": f"{there.name}'s {there.python} did not do what it was asked"}


def _text(word: str) -> str:
    return inspect.getsource(link_program).replace('WORD = ""', f"WORD = {word!r}", 1)


async def _started(transport: Transport, site: Site, word: str, what: str) -> RemoteProcess:
    process = await transport.start(f"exec {path_word(site.python)} -I - {what}")
    await process.write(_text(word).encode())
    await process.close_stdin()
    return process


async def _asked(transport: Transport, site: Site, word: str, what: str) -> dict[str, Any]:
    answer: CommandResult = await transport.run(f"{path_word(site.python)} -I - {what}", _text(word), timeout_s=60)
    try:
        found = json.loads(answer.stdout)
    except (ValueError, RecursionError):
        found = None
    if not _can_be(found):
        return {"unknown": f"{site.name}'s {site.python} says {answer.said[:MOST_SHOWN]}"}
    told: dict[str, Any] = found
    return told


def _can_be(found: object) -> bool:
    """Whether a site has told what our program tells: figures may be written into the file of sites."""
    match found:
        case {"round_trip_s": int() | float() as round_trip_s, "bandwidth": int() | float() as bandwidth}:
            return 0 < round_trip_s < math.inf and 0 < bandwidth < math.inf
        case {"bandwidth": _}:
            return False
        case {"reached": True} | {"error": str()}:
            return True
    return False
