"""`xmml sites check` says of the sites of the test bed what is so, and finds what is wrong."""

import json
import sys
from pathlib import Path

import pytest
import tomlkit


@pytest.fixture
def check(bed, tmp_path):
    """Runs the command on the laptop; returns exit status, output and errors."""

    def run(text, *words):
        file = tmp_path / "sites.toml"
        file.write_text(text)
        command = [Path(sys.executable).with_name("xmml"), "sites", "check", "--sites", file, *words]
        done = bed.laptop.run(command, check=False, timeout_s=240)
        return done.returncode, done.stdout, done.stderr

    return run


def findings(output, site):
    return json.loads(output)["sites"][site]["findings"]


def test_sites_that_can_be_used_are_described(bed, check):
    text = bed.sites_toml().replace('scheduler = "slurm"', 'scheduler = "slurm"\nmodules = ["openmpi"]')
    status, output, errors = check(text, "--json", "--write")
    assert (status, errors) == (0, ""), output
    report = json.loads(output)
    assert report["ok"]
    assert set(report["sites"]) == {"alpha", "beta", "gamma", "laptop"}
    alpha = findings(output, "alpha")
    assert alpha["reached"]["login"] == "alice@alpha-login"
    assert 0.01 <= alpha["reached"]["round_trip_s"] < 60
    assert alpha["scheduler"]["version"].startswith("Slurm ")
    assert (alpha["scheduler"]["free_cores"], alpha["scheduler"]["cores"]) == (8, 8)
    assert alpha["work"]["free_bytes"] > 0
    assert abs(alpha["clock"]["skew_s"]) <= alpha["clock"]["unsure_s"] + 1
    assert alpha["xmml"]["verdict"] == alpha["modules"]["verdict"] == alpha["mpi"]["verdict"] == "ok"
    assert findings(output, "gamma")["scheduler"]["version"] == "none"
    links = {tuple(link["between"]): link for link in report["links"]}
    assert links["alpha", "beta"]["text"] == "beta:40001 can be reached from alpha"
    assert 0.005 <= links["alpha", "beta"]["latency_s"] < 60
    assert links["alpha", "beta"]["bandwidth"] > 1e5
    assert links["alpha", "laptop"]["text"] == "over the ssh connection"


def test_measured_links_are_written_back_and_nothing_else_changes(bed, check, tmp_path):
    text = (
        "# my sites\n" + bed.sites_toml("alpha", "beta") + '[[link]] # the way north\nbetween = ["beta", "alpha"]\n'
        'latency = "1 s" # guessed\nstreams = 4\n'
    )
    assert check(text, "--write")[0] == 0
    written = (tmp_path / "sites.toml").read_text()
    link = tomlkit.parse(written)["link"][0]
    assert link["latency"].endswith(" ms")
    assert link["bandwidth"].endswith("bit/s")
    before = [line for line in text.splitlines() if not line.startswith("latency")]
    after = [line for line in written.splitlines() if not line.startswith(("latency", "bandwidth"))]
    assert after == before
    assert "# guessed" in written


def test_everything_that_is_wrong_is_named_and_the_exit_status_is_5(bed, check):
    text = bed.sites_toml("alpha", "beta", "gamma")
    text = text.replace('partition = "batch"', 'partition = "nosuch"', 1)
    text = text.replace('ssh = "beta"', 'ssh = "beta"\nmodules = ["nothing"]\nwork = "/proc/xmml"')
    text = text.replace('ssh = "gamma"', 'ssh = "gamma"\nscheduler = "pbs"').replace(
        'cores = 2\nmemory = "4 GiB"\npython = "/opt/xmml/bin/python"', 'cores = 2\npython = "/usr/bin/none"'
    )
    status, output, _ = check(text)
    assert status == 5
    for words in (
        "has no partition nosuch",
        "cannot be loaded: nothing; see what there is with: module avail",
        "/proc/xmml cannot be written",
        "qstat of PBS is not there",
        "/usr/bin/none has no xMML",
        "3 cannot be used: alpha, beta, gamma",
    ):
        assert words in output, output


def test_a_site_that_is_down_or_shows_another_key_is_named_and_the_others_are_checked(bed, check):
    text = bed.sites_toml("gamma", "beta") + '\n[site.nowhere]\nssh = "no-such-host.invalid"\ncores = 1\n'
    with bed.another_host_key("gamma"):
        status, output, _ = check(text, "--json")
    assert status == 5
    assert "is not the one in your known_hosts" in findings(output, "gamma")["reached"]["text"]
    assert "cannot be reached" in findings(output, "nowhere")["reached"]["text"]
    assert findings(output, "beta")["xmml"]["verdict"] == "ok"


def test_a_relay_port_behind_a_firewall_is_found(bed, check):
    text = bed.sites_toml("alpha", "beta").replace(":40001", ":50001")
    status, output, _ = check(text, "--json")
    assert status == 5
    link = json.loads(output)["links"][0]
    assert "beta:50001 cannot be reached from alpha" in link["text"]
    assert "alpha:50001 cannot be reached from beta" in link["text"]


def test_a_relay_port_that_is_in_use_is_no_error(bed, check):
    program = "import socket, time; s = socket.create_server(('', 40001)); print('ready', flush=True); time.sleep(3600)"
    holder = bed.site("beta").login.start([sys.executable, "-c", program], cwd="/", stdout=-1, text=True)
    try:
        assert holder.stdout.readline() == "ready\n"
        status, output, _ = check(bed.sites_toml("alpha", "beta"), "--json")
    finally:
        holder.kill()
        holder.communicate()
    assert status == 0
    assert "it is in use, so nothing was measured" in json.loads(output)["links"][0]["text"]


def test_only_the_sites_that_are_named_are_checked(bed, check):
    status, output, _ = check(bed.sites_toml(), "--json", "gamma")
    assert (status, list(json.loads(output)["sites"])) == (0, ["gamma"])
    status, _, errors = check(bed.sites_toml("gamma"), "delta")
    assert (status, errors.strip().rpartition(", ")[2]) == (2, "only: gamma")


def test_a_job_of_the_size_that_the_file_says_is_asked_for_and_not_submitted(bed, check):
    def jobs():
        return set(bed.site("alpha").run("squeue --noheader --states=all --format=%i").stdout.split())

    before = jobs()  # the queue still shows those that have ended
    status, output, _ = check(bed.sites_toml("alpha"), "--json")
    assert status == 0
    assert findings(output, "alpha")["job"]["text"].startswith("a job of 2 x 4 cores, ")
    assert jobs() <= before


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("cores = 4", "cores = 64", "allows 4 cores on a node: set cores = 4"),
        ("gpus = 2", "gpus = 8", "allows 2 GPUs on a node: set gpus = 2"),
        ('walltime = "30 min"', 'walltime = "1 day"', "the partition batch allows 2 hr: set walltime"),
        ("nodes = 2", 'nodes = 2\noptions = ["--constraint=nothing"]', "look at partition, account, qos"),
        ('partition = "batch"', 'partition = "short"', "or another partition (batch allows"),
    ],
)
def test_what_no_job_can_have_is_named(bed, check, before, after, told):
    status, output, _ = check(bed.sites_toml("alpha").replace(before, after), "--json")
    assert status == 5
    job = findings(output, "alpha")["job"]
    assert job["verdict"] == "failed"
    assert told in job["text"]


def test_a_line_of_the_setup_that_fails_is_named(bed, check):
    lines = 'setup = ["true", "test -e /nowhere"]'
    status, output, _ = check(bed.sites_toml("gamma").replace("cores = 2", f"cores = 2\n{lines}"), "--json")
    assert status == 5
    assert findings(output, "gamma")["setup"]["text"] == "the line 'test -e /nowhere' fails with exit status 1"
