"""Transports, each to a real place: over ssh to a real sshd."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest
from needs import missing
from sshd import running_sshd
from xmml_executors.transports import remote_shell
from xmml_executors.transports.destination import Destination
from xmml_executors.transports.local import LocalTransport
from xmml_executors.transports.over_asyncssh import AsyncsshTransport
from xmml_executors.transports.over_openssh import OpensshTransport

OVER_SSH = ["asyncssh", "openssh"]


def make(kind, server):
    """A transport of some kind to a server; `None`: to this machine."""
    if kind == "local":
        return LocalTransport("here")
    maker = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}[kind]
    return maker("alpha", Destination(server.name), [server.config])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that no test changes."""
    if reason := missing("sshd"):
        pytest.skip(reason)
    with running_sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path):
    """A server that the test may treat as it likes."""
    if reason := missing("sshd"):
        pytest.skip(reason)
    with running_sshd(tmp_path / "sshd") as server:
        yield server


@pytest.fixture(params=["local", *OVER_SSH])
def using(request, server, tmp_path, monkeypatch):
    """Runs a test's coroutine with a transport; afterwards nothing of it is left at the site."""

    def run(work, limit_s=60):
        async def whole():
            transport = make(request.param, server)
            try:
                async with asyncio.timeout(limit_s):
                    return await work(transport)
            finally:
                await transport.close()

        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(remote_shell, "LATE_S", 1)
        try:
            return asyncio.run(whole())
        finally:
            assert leases(tmp_path) == leases(server.temporary) == []
            if request.param != "local":
                left = [line for line in server.wait_until_nothing_runs().values() if not line.startswith("sshd")]
                assert left == []

    run.kind = request.param
    return run


def leases(folder):
    """Folders of leases that exist."""
    return list(folder.glob("xmml-lease.*"))


async def until(condition, limit_s=10.0):
    """Wait until something is so."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        await asyncio.sleep(0.02)


def runs(pid):
    """Whether there is such a process (and not just what is left of it)."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False
