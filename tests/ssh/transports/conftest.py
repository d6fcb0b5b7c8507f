"""Transports, each to a real place: over ssh to a real sshd."""

import asyncio

import pytest
from ssh_transports import OVER_SSH, leases, make
from sshd import running_sshd
from waiting import LIMIT_S


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that no test changes."""
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path):
    """A server that the test may treat as it likes."""
    with running_sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture(params=["local", *OVER_SSH])
def using(request, server, tmp_path, monkeypatch):
    """Runs a test's coroutine with a transport; afterwards nothing of it is left at the site."""

    def run(work, limit_s=LIMIT_S):
        async def whole():
            transport = make(request.param, server)
            try:
                async with asyncio.timeout(limit_s):
                    return await work(transport)
            finally:
                await transport.close()

        monkeypatch.setenv("TMPDIR", str(tmp_path))
        try:
            return asyncio.run(whole())
        finally:
            assert leases(tmp_path) == leases(server.temporary) == []
            if request.param != "local":
                assert server.wait_until_nothing_runs(besides="sshd") == {}

    run.kind = request.param
    return run
