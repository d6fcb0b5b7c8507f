"""The ssh server of the tests does what it says, also when it goes away."""

import subprocess

import pytest
from sshd import Sshd, running_sshd
from waiting import LIMIT_S, wait_until


def log_in(server: Sshd, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", str(server.config), server.name, command],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture
def server(tmp_path):
    with running_sshd(tmp_path / "sshd") as server:
        yield server


def test_a_client_logs_in_with_the_configuration_and_sees_a_home_of_its_own(server):
    answer = log_in(server, "echo $HOME")
    assert (answer.returncode, answer.stdout.strip()) == (0, str(server.home)), answer.stderr
    assert server.opened() == 1


def test_a_changed_host_key_is_refused_by_the_client(server):
    server.change_host_key()
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in log_in(server, "true").stderr


def test_cutting_a_connection_leaves_what_runs_and_closing_the_server_does_not(server):
    def running():
        return list(server.processes().values())

    client = subprocess.Popen(
        ["ssh", "-F", str(server.config), server.name, "echo ready; exec sleep 1000"], stdout=subprocess.PIPE
    )
    assert client.stdout is not None
    client.stdout.readline()
    wait_until(lambda: running() == ["sleep 1000"], lambda: f"there is {running()}")
    server.cut()
    assert client.wait(LIMIT_S) == 255
    assert running() == ["sleep 1000"]
    server.close()
    assert server.wait_until_nothing_runs() == {}
