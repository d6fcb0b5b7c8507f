"""The test bed is what it says: sites that share nothing, firewalls, delay, batch systems that work."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from testbed import why_not
from testbed.bed import as_user
from waiting import wait_until

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
    def answer(machine, host, port, patience_s):
        script = f"import socket; socket.create_connection(({host!r}, {port}), {patience_s})"
        return machine.run([sys.executable, "-c", script], cwd="/", check=False)

    def can_reach(machine, host, port):
        done = answer(machine, host, port, 50)
        return done.returncode == 0 or "refused" in done.stderr

    def is_closed(machine, host, port):
        done = answer(machine, host, port, 2)
        return "timed out" in done.stderr or "unreachable" in done.stderr

    alpha, beta = bed.site("alpha"), bed.site("beta")
    assert can_reach(bed.laptop, "beta", 22)
    assert can_reach(alpha.login, "beta", 40001)
    assert is_closed(alpha.login, "beta", 50001)
    assert is_closed(alpha.login, "gamma", 40001)
    assert is_closed(alpha.login, "laptop", 22)
    node = alpha.placed.node(1)
    assert can_reach(node, "10.1.0.1", 50001)
    assert is_closed(node, beta.placed.address, 40001)


def test_the_wide_area_takes_its_time(bed):
    answer = bed.laptop.run(["ping", "-c", "20", "-i", "0.05", "-q", bed.site("alpha").placed.address], cwd="/")
    least = float(re.search(r"= ([\d.]+)/", answer.stdout)[1])
    assert 10.0 <= least < 100.0, "the fastest of twenty"


def test_a_machine_has_an_etc_of_its_own(bed):
    """Whoever installs packages underneath replaces files of /etc, which takes away what is mounted over them there."""
    here = Path("/etc").stat()
    for name, machine in bed.machines.items():
        there = machine.run(["stat", "-c", "%d:%i", "/etc"], cwd="/").stdout.strip()
        assert there != f"{here.st_dev}:{here.st_ino}", name


HOLDER = """
import socket, sys, tempfile
port = socket.create_server(("127.0.0.1", 0))
name = socket.socket(socket.AF_UNIX)
name.bind("\\0left-over")
name.listen()
files = [tempfile.NamedTemporaryFile(prefix="left-over", dir=folder) for folder in sys.argv[1:]]
print(port.getsockname()[1], *(file.name for file in files), flush=True)
input()
"""


def test_what_is_left_is_counted_at_sites_and_on_the_laptop(bed):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    alpha = bed.site("alpha")
    alice = alpha.users[0]
    in_tmp = ("/tmp", "/dev/shm")
    there = as_user(alice, f"exec python3 -c {shlex.quote(HOLDER)} {' '.join(in_tmp)}")
    places = [
        ("laptop", "the tester", [sys.executable, "-c", HOLDER, str(bed.temporary)]),
        ("alpha-login", "alice at alpha", there),
        ("alpha1", "alice at alpha", there),
    ]
    holders = [bed.machines[name].start(command, cwd="/", **pipes) for name, _, command in places]
    home = alpha.home() / "left" / "over"
    try:
        home.mkdir(parents=True)
        for (name, owner, _), holder in zip(places, holders, strict=True):
            port, *files = holder.stdout.readline().split()
            left = bed.wait_until_clean(0)
            assert f"port on {name}: {port}" in left
            assert len(files) == (1 if name == "laptop" else 2)
            for file in files:
                assert f"file on {name}: {file}" in left
            assert f"socket on {name}: @left-over" in left
            assert any(line.startswith(f"process of {owner} on {name}: ") for line in left), left
            assert "file at alpha: ~alice/left/over" in left
    finally:
        shutil.rmtree(alpha.home() / "left")
        for holder in holders:
            holder.communicate("\n")


def test_jobs_and_reservations_that_are_left_are_counted(bed):
    alpha = bed.cluster("alpha")
    words = "reservation=left-over users=root duration=1 nodes=ALL start=now+1day"
    with alpha.occupied():
        assert alpha.slurm.root(f"scontrol create {words}", check=True) == "Reservation created: left-over\n"
        try:
            kinds = {line.partition(":")[0] for line in bed.wait_until_clean(0)}
            assert {"job at alpha", "reservation at alpha"} <= kinds
        finally:
            alpha.slurm.root("scontrol delete reservation=left-over", check=True)


def _runs(pid):
    """Whether a process is there. One that has ended stays a number until its parent, who may be busy, asks for it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_the_command_brings_it_up_and_down_and_leaves_nothing(tmp_path):
    environment = {**os.environ, "XMML_TESTBED": str(tmp_path / "bed")}

    def testbed(*words):
        return subprocess.run(
            [sys.executable, TESTBED, *words], env=environment, capture_output=True, text=True, timeout=240
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
        wait_until(lambda: not folder.exists(), f"{folder} is not removed")
        wait_until(lambda: not any(_runs(pid) for pid in machines), "processes of machines go on")
        assert testbed("status").returncode == 1
    finally:
        assert testbed("down").returncode == 0
    assert "sites" not in Path("/proc/mounts").read_text()


def _children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
