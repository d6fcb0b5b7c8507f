"""The relay of a run at a site: on the login node, which sees both the compute nodes and, through ssh, us."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from xmml_executors.launch.run_site import RunSite
from xmml_executors.transports import RemoteProcess

#: The relay of a site ends when nobody has renewed its lease for so long [s].
RELAY_LEASE_S = 60.0


async def start_relay(
    site: RunSite, name: str, links: Sequence[str], run: str, secret: bytes
) -> tuple[RemoteProcess, int] | None:
    """Start `mto` beside the Python of a site; return it and the port that compute nodes dial, `None` if there is none.

    The run's secret goes to it over its standard input. It listens on the port that the site's description names, so
    that relays of other sites come in there; if that port is taken, on any.

    Args:
        name: of the relay, as streams are addressed to it.
        links: the relays that it dials, `HOST:PORT` as the login node sees them.

    Raises:
        TransportError: the site cannot be reached.
    """
    described = site.site.relay
    named = 0
    if described is not None:
        named = described.port or (int(described.listen.rpartition(":")[2]) if described.listen else 0)
    for port in dict.fromkeys((named, 0)):
        words = ["--site", name, "--listen", f"0.0.0.0:{port}", "--stdin"]
        words += [word for link in links for word in ("--link", link)]
        command = (
            f'mto="$(dirname "$(command -v {shlex.quote(site.python)})")/mto"; [ -x "$mto" ] || exit 69; '
            f'exec "$mto" {shlex.join(words)}'
        )
        process = await site.transport.start(command, lease_s=RELAY_LEASE_S)
        answers = process.lines()
        status = await _answer(answers)
        if status is None:
            continue
        await process.write(json.dumps({"command": "add-run", "run": run, "secret": secret.hex()}).encode() + b"\n")
        answer = await _answer(answers)
        if answer is not None and answer.get("ok"):
            return process, int(str(status["listen"][0]).rpartition(":")[2])
        await process.kill()
    return None


async def _answer(lines: Any) -> dict[str, Any] | None:
    try:
        answer: dict[str, Any] = json.loads(await anext(lines))
    except (StopAsyncIteration, ValueError):
        return None
    return answer
