"""Both kinds of ssh over the wide area of the test bed: what a real network and real quotas do to them."""

import asyncio
import hashlib
import os
import time

import pytest
from testbed.pair import full_folder
from wan.soak import long_form
from xmml_sites.ssh import (
    ConnectionLost,
    HostKeyChanged,
    NoAnswer,
    RemoteFileError,
    SiteUnreachable,
)
from xmml_sites.ssh.asyncssh_transport import AsyncsshTransport
from xmml_sites.ssh.destination import Destination
from xmml_sites.ssh.openssh_transport import OpensshTransport

KINDS = {"asyncssh": AsyncsshTransport, "openssh": OpensshTransport}
pytestmark = pytest.mark.parametrize("kind", KINDS)


def over(bed, kind, site, work, limit_s=240):
    """Run a coroutine with a transport from the laptop to a site."""

    async def whole():
        transport = KINDS[kind](site, Destination(site), [bed.ssh_config_outside()])
        try:
            async with asyncio.timeout(limit_s):
                return await work(transport)
        finally:
            await transport.close()

    with bed.laptop.network():
        return asyncio.run(whole())


def test_commands_and_files_cross_the_wide_area(bed, kind, tmp_path):
    large = tmp_path / "large"
    large.write_bytes(os.urandom(2**20) * 24)
    small = tmp_path / "small"
    small.write_text("small")

    async def work(transport):
        for file in (large, small):
            await transport.put(file, f"~/staged/{file.name}")
        hashes = await transport.hash_files(["~/staged/large"])
        answer = await transport.run("hostname; whoami; ls staged")
        await transport.remove("~/staged")
        return answer.stdout.split(), hashes["~/staged/large"]

    said, sha256 = over(bed, kind, "beta", work)
    assert said == ["beta-login", "asmith", "large", "small"]
    assert sha256 == hashlib.sha256(large.read_bytes()).hexdigest()


def test_jobs_are_submitted_watched_and_cancelled(bed, kind):
    from xmml_sites.batch import JobScript, JobState, Slurm

    slurm = Slurm()

    async def work(transport):
        folder = f"{await transport.home()}/job"
        await transport.put_text(f"{folder}/job.sh", slurm.render(JobScript("watched", folder, "sleep 1000")))
        id = slurm.parse_submit(await transport.run(slurm.submit_command(f"{folder}/job.sh")))
        states = []
        while not states or not states[-1].is_over:
            state = slurm.parse_status(await transport.run(slurm.status_command([id])), [id])[id].state
            if state is JobState.RUNNING and JobState.RUNNING not in states:
                await transport.run(slurm.cancel_command([id]))
            if not states or states[-1] is not state:
                states.append(state)
            await asyncio.sleep(0.1)
        await transport.remove(folder)
        return states[-1]

    assert over(bed, kind, "alpha", work) is JobState.CANCELLED


@pytest.mark.parametrize("size", [1000, 8 * 2**20])
def test_a_full_quota_is_named_and_nothing_half_written_stays(bed, kind, tmp_path, size):
    file = tmp_path / "file"
    file.write_bytes(os.urandom(size))

    async def work(transport):
        with pytest.raises(RemoteFileError) as error:
            await asyncio.gather(*(transport.put(file, f"{full}/deep/{n}") for n in range(4)))
        with pytest.raises(RemoteFileError) as text_error:
            await transport.put_text(f"{full}/text", "x" * 10000)
        left = await transport.run(f"find {full} -name '*.part'")
        return str(error.value), str(text_error.value), left.stdout

    with full_folder(bed, "gamma") as full:
        error, text_error, left = over(bed, kind, "gamma", work)
    assert "No space left on device; make room there, or set another work directory" in error
    assert "No space left on device" in text_error
    assert left == ""


@long_form("half a minute until silence is a loss")
def test_a_cut_network_is_noticed_and_the_next_command_after_it_works(bed, kind):
    link = bed.wan.link("laptop", "gamma")

    async def work(transport):
        await transport.run("true")
        started = time.monotonic()
        with link.severed(), pytest.raises((ConnectionLost, NoAnswer)):
            await transport.run("sleep 1000", timeout_s=600)
        noticed = time.monotonic() - started
        return noticed, (await transport.run("echo again")).stdout

    noticed, said = over(bed, kind, "gamma", work)
    assert noticed < 60
    assert said == "again\n"


def test_a_site_whose_server_is_down_and_one_that_shows_another_key(bed, kind):
    gamma = bed.site("gamma")

    async def log_in(transport):
        return (await transport.run("echo in")).stdout

    assert over(bed, kind, "gamma", log_in) == "in\n"
    gamma.stop_sshd()
    with pytest.raises(SiteUnreachable, match="refused"):
        over(bed, kind, "gamma", log_in)
    gamma.set_host_key()
    gamma.start_sshd()
    with pytest.raises(HostKeyChanged):
        over(bed, kind, "gamma", log_in)
    bed.learn_host_keys()
    assert over(bed, kind, "gamma", log_in) == "in\n"
