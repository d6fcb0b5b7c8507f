"""Looking at a site that does not do what it is told."""

import asyncio

from xmml_executors.site_check.probe import probe
from xmml_executors.site_check.report import Verdict
from xmml_executors.transports.local import LocalTransport
from xmml_planner.sites import Site


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
