"""The test bed is what it says: sites that share nothing, firewalls, delay, batch systems that work."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from testbed.bed import as_user

TESTBED = Path(__file__).parents[1] / "bed"


def ssh(bed, host, command):
    return bed.laptop.run(["ssh", host, command], cwd="/", check=False)


def test_people_log_in_from_the_laptop_and_are_others_everywhere(bed):
    hosts = ("alpha", "alpha-bob", "beta", "gamma")
    names = [ssh(bed, host, "whoami; hostname").stdout.split() for host in hosts]
    assert names == [
        ["alice", "alpha-login"],
        ["bob", "alpha-login"],
        ["asmith", "beta-login"],
        ["carol", "gamma-login"],
    ]


def test_sites_share_no_folder_and_hide_the_one_underneath(bed, tmp_path):
    for folder in ("~", "/tmp", "/var/tmp", "/dev/shm", "/opt"):
        ssh(bed, "alpha", f"touch {folder}/seen-{os.getpid()}")
    for host in ("beta", "gamma", "alpha-bob"):
        seen = ssh(
            bed, host, f"ls -d ~/seen* /tmp/seen* /var/tmp/seen* /dev/shm/seen* /opt/seen* {tmp_path} {__file__}"
        )
        if host == "alpha-bob":  # another person at the same site
            assert set(seen.stdout.split()) <= {f"/tmp/seen-{os.getpid()}", f"/dev/shm/seen-{os.getpid()}"}
        else:
            assert seen.stdout == ""
    ssh(bed, "alpha", "rm -f ~/seen* /tmp/seen* /dev/shm/seen*")


def test_xmml_can_be_used_at_every_site(bed):
    for host in ("alpha", "beta", "gamma"):
        answer = ssh(bed, host, "/opt/xmml/bin/xmml --version")
        assert re.match(r"xmml \d", answer.stdout), answer


def test_a_job_runs_on_both_nodes_and_modules_can_be_loaded(bed):
    answer = ssh(bed, "alpha", "bash -lc 'module load openmpi && echo $OPENMPI_LOADED && srun -N2 hostname'")
    assert sorted(answer.stdout.split()) == ["alpha", "alpha1", "alpha2"], answer
    assert ssh(bed, "beta", "bash -lc 'module load nothing'").returncode != 0


def test_the_firewalls_let_in_ssh_and_relays_only(bed):
    def can_reach(machine, host, port):
        script = f"import socket; socket.create_connection(({host!r}, {port}), 2)"
        done = machine.run([sys.executable, "-c", script], cwd="/", check=False)
        if "timed out" in done.stderr or "unreachable" in done.stderr:
            return False
        assert done.returncode == 0 or "refused" in done.stderr, done.stderr
        return True

    alpha, beta = bed.site("alpha"), bed.site("beta")
    assert can_reach(bed.laptop, "beta", 22)
    assert can_reach(alpha.login, "beta", 40001)
    assert not can_reach(alpha.login, "beta", 50001)
    assert not can_reach(alpha.login, "gamma", 40001)
    assert not can_reach(alpha.login, "laptop", 22)
    node = alpha.placed.node(1)
    assert can_reach(node, "10.1.0.1", 50001)
    assert not can_reach(node, beta.placed.address, 40001)


def test_the_wide_area_takes_its_time(bed):
    answer = bed.laptop.run(["ping", "-c", "3", "-i", "0.2", "-q", bed.site("alpha").placed.address], cwd="/")
    least = float(re.search(r"= ([\d.]+)/", answer.stdout)[1])
    assert 10.0 <= least < 200.0


HOLDER = """
import socket, tempfile, time
port = socket.create_server(("127.0.0.1", 0))
name = socket.socket(socket.AF_UNIX)
name.bind("\\0left-over")
name.listen()
file = tempfile.NamedTemporaryFile(prefix="left-over")
print(port.getsockname()[1], file.name, flush=True)
input()
"""


def test_what_is_left_is_counted_at_sites_and_on_the_laptop(bed):
    def holder(machine, command, folder):
        words = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        return machine.start(command, cwd="/", env={**os.environ, "TMPDIR": folder}, **words)

    alpha, folder = bed.site("alpha"), str(bed.temporary)
    here = holder(bed.laptop, [sys.executable, "-c", HOLDER], folder)
    there = holder(alpha.login, as_user(alpha.users[0], f"exec python3 -c {shlex.quote(HOLDER)}"), "/tmp")
    try:
        for machine, owner, process in (("laptop", "the tester", here), ("alpha-login", "alice at alpha", there)):
            port, file = process.stdout.readline().split()
            left = bed.wait_until_clean(0)
            assert f"port on {machine}: {port}" in left
            assert f"file on {machine}: {file}" in left
            assert f"socket on {machine}: @left-over" in left
            assert any(line.startswith(f"process of {owner} on {machine}: ") for line in left), left
    finally:
        for process in (here, there):
            process.communicate("\n")


def _runs(pid):
    """Whether a process is there. One that has ended stays a number until its parent, who may be busy, asks for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_command_brings_it_up_and_down_and_leaves_nothing(tmp_path):
    environment = {**os.environ, "XMML_TESTBED": str(tmp_path / "bed")}

    def testbed(*words):
        return subprocess.run(
            [sys.executable, TESTBED, *words], env=environment, capture_output=True, text=True, timeout=110
        )

    assert testbed("status").returncode == 1
    up = testbed("up")
    assert up.returncode == 0, up.stderr
    try:
        assert "alpha1" in testbed("status").stdout
        keeper = int((tmp_path / "bed" / "keeper").read_text())
        machines = _children(keeper)
        assert testbed("enter", "alpha-login", "hostname").stdout == "alpha-login\n"
        assert testbed("enter", "laptop", "ssh", "gamma", "whoami").stdout == "carol\n"
        assert testbed("up").returncode == 0, "a second up finds it standing"
        folder = Path((tmp_path / "bed" / "folder").read_text())
        assert folder.is_dir()
        os.kill(keeper, signal.SIGKILL)  # nothing has a chance to tidy up
        end = time.monotonic() + 20
        while (folder.exists() or any(_runs(pid) for pid in machines)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not folder.exists()
        assert [pid for pid in machines if _runs(pid)] == []
        assert testbed("status").returncode == 1
    finally:
        assert testbed("down").returncode == 0
    assert "sites" not in Path("/proc/mounts").read_text()


def _children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
