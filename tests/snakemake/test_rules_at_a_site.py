"""Rules that are not coupled runs, at a site that is reached by a real ssh server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import liar
import pytest
from copy_messages import RANGE_B
from disclosed import mode_of
from snakemake_executor_plugin_xmml import rule_jobs
from snakemake_executor_plugin_xmml.placement import Needs
from snakemake_executor_plugin_xmml.rule_jobs import RuleJob, RuleJobs, script_of
from sshd import Sshd, running_sshd
from waiting import wait_until
from xmml_planner.sites import Site
from xmml_sites.batch import by_name
from xmml_sites.transfer.staging import STORE, stage

from workflows import Workflow, ended

SITES = """
[site.alpha]
ssh = "{name}"
cores = 4
work = "{home}/work"
"""


class AtASite(Workflow):
    """A workflow, and a site."""

    def __init__(self, folder: Path, server: Sshd, snakefile: str) -> None:
        folder.mkdir()
        self.server = server
        (folder / "sites.toml").write_text(SITES.format(name=server.name, home=server.home))
        options = ("--xmml-sites", "sites.toml")
        super().__init__(folder, snakefile, *options, env={"XMML_SSH_CONFIG": str(server.config)})

    def left(self) -> list[str]:
        """What is left in the work folder of the site, besides staged files."""
        work = self.server.home / "work"
        return [str(path) for path in work.rglob("*") if path.relative_to(work).parts[0] != STORE]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with running_sshd(tmp_path / "sshd") as server:
        yield server


TWO_RULES = """
rule all:
    input: "out/sum.txt", "out/tree"
rule numbers:
    output: "in/numbers.txt"
    shell: "seq 10 > {output}"
rule add:
    input: "in/numbers.txt"
    output: "out/sum.txt", directory("out/tree")
    log: "logs/add.log"
    threads: 3
    resources: site="alpha"
    shell:
        "paste -sd+ {input} | bc > {output[0]} || awk '{{s+=$1}} END {{print s}}' {input} > {output[0]}; "
        "mkdir -p {output[1]}/deep; echo $XMML_TEST_SSHD > {output[1]}/deep/where; echo added > {log}"
"""


def test_files_go_there_the_command_runs_there_and_results_come_back(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, TWO_RULES)
    status, output = workflow.run()
    assert status == 0, output
    assert (workflow.folder / "out/sum.txt").read_text() == "55\n"
    assert (workflow.folder / "out/tree/deep/where").read_text().strip() in server.mark
    assert (workflow.folder / "logs/add.log").read_text() == "added\n"
    assert workflow.left() == []


MODES = """
rule make:
    output: "text", "program", "private", directory("tree")
    log: "make.log"
    resources: site="alpha"
    shell:
        "echo hello | tee {output[0]} > {log}; echo true > {output[1]}; chmod +x {output[1]}; "
        "touch {output[2]}; chmod 600 {output[2]}; mkdir -p {output[3]}/deep; touch {output[3]}/deep/leaf"
"""


def test_outputs_have_the_modes_that_the_umask_here_gives(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, MODES)
    workflow.umask = 0o027
    status, output = workflow.run()
    assert status == 0, output
    modes = {name: oct(mode_of(workflow.folder / name)) for name in ("text", "make.log", "tree/deep", "tree/deep/leaf")}
    assert modes == {"text": "0o640", "make.log": "0o640", "tree/deep": "0o750", "tree/deep/leaf": "0o640"}


def test_programs_stay_programs_and_what_a_rule_makes_private_stays_private(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, MODES)
    workflow.umask = 0o022
    status, output = workflow.run()
    assert status == 0, output
    assert [oct(mode_of(workflow.folder / name)) for name in ("program", "private")] == ["0o755", "0o600"]


def test_others_at_the_site_cannot_look_into_a_job_while_it_runs(tmp_path: Path, server: Sshd) -> None:
    waits, go = tmp_path / "waits", tmp_path / "go"
    workflow = AtASite(tmp_path / "study", server, failing(WAITS.format(waits=waits, go=go)))
    workflow.umask = 0o000
    with workflow.going() as running:
        wait_until(waits.exists, "the job does not begin")
        (job,) = (server.home / "work/snakemake").iterdir()
        assert [mode_of(folder) for folder in (job, job.parent)] == [0o700, 0o700]
        go.touch()
        status, output = ended(running)
    assert status == 0, output


TREE = """
rule grow:
    output: directory("tree")
    resources: site="alpha"
    shell: "sh {script}"
"""
#: Makes a file below `tree` whose path holds the end of a line, and behind that another path.
TWO_PATHS_IN_A_NAME = """
touch "{shown}"
mkdir -p "tree/leaf
{elsewhere}" ".{elsewhere}"
mkdir -p tree
touch tree/leaf
echo owned > "tree/leaf
{elsewhere}/owned"
echo owned > ".{elsewhere}/owned"
"""


def test_a_program_there_cannot_have_a_file_written_elsewhere_here_by_its_name(tmp_path: Path, server: Sshd) -> None:
    script, elsewhere, ran = tmp_path / "script", tmp_path / "elsewhere", tmp_path / "ran"
    elsewhere.mkdir()
    script.write_text(TWO_PATHS_IN_A_NAME.format(elsewhere=elsewhere, shown=ran))
    workflow = AtASite(tmp_path / "study", server, TREE.format(script=script))
    status, output = workflow.run()
    assert ran.exists(), output
    assert list(elsewhere.iterdir()) == []
    assert status == 0, output
    assert (workflow.folder / f"tree/leaf\n{elsewhere}/owned").read_text() == "owned\n"


@pytest.mark.parametrize(
    "named",
    [
        "work/../owned",
        "work/tree/../../owned",
        "{elsewhere}/owned",
        "work/other/owned",
        "work/tree/ow\0ned",
        "work/tree/ow\ud800ned",
    ],
)
def test_a_site_that_names_other_files_than_those_asked_for_is_not_believed(tmp_path: Path, named: str) -> None:
    elsewhere, lie = tmp_path / "elsewhere", tmp_path / "lie.json"
    path = named.format(elsewhere=elsewhere)
    lie.write_text(json.dumps({"listed": path}))
    script = tmp_path / "script"
    script.write_text("mkdir tree; touch tree/leaf\n")
    command = f"XMML_LIE={shlex.quote(str(lie))} {shlex.join([sys.executable, liar.__file__])}"
    with running_sshd(tmp_path / "sshd", settings=f"ForceCommand {command}") as server:
        workflow = AtASite(tmp_path / "study", server, TREE.format(script=script))
        before = set(tmp_path.rglob("owned"))
        status, output = workflow.run()
    assert status != 0
    assert lie.with_suffix(".told").exists(), output
    assert f"site alpha: it lists a file that was not requested: {path!r}" in output
    assert set(tmp_path.rglob("owned")) == before


LINKS = """
rule make:
    output: "odd [1]*.txt", directory("tree")
    resources: site="alpha"
    shell:
        "echo odd > {output[0]:q}; mkdir -p {output[1]}/deep; echo leaf > {output[1]}/deep/.leaf; "
        "cd {output[1]}; ln -s deep/.leaf one; ln -s deep other; ln -s .. deep/up"
"""


def test_links_in_an_output_folder_come_as_copies_of_what_they_lead_to(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, LINKS)
    status, output = workflow.run()
    assert status == 0, output
    tree = workflow.folder / "tree"
    for name in ("deep/.leaf", "one", "other/.leaf"):
        assert not (tree / name).is_symlink()
        assert (tree / name).read_text() == "leaf\n"
    assert (workflow.folder / "odd [1]*.txt").read_text() == "odd\n"


def test_outputs_come_into_a_folder_that_is_a_link_to_another_disk(tmp_path: Path, server: Sshd) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as disk:
        workflow = AtASite(tmp_path / "study", server, TWO_RULES)
        (workflow.folder / "out").symlink_to(disk)
        status, output = workflow.run()
        assert status == 0, output
        assert (workflow.folder / "out").is_symlink()
        assert Path(disk, "sum.txt").read_text() == "55\n"
        assert not list(Path(disk).rglob("*.part"))
    assert not list((workflow.folder / ".snakemake/xmml/arriving").iterdir())


SEEN = """
rule look:
    input: "program"
    output: "seen"
    resources: site="alpha"
    shell: "stat -c '%a %Y' {input} > {output}"
"""


def test_inputs_have_the_times_and_permissions_there_that_they_have_here(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, SEEN)
    program = workflow.folder / "program"
    program.touch(0o750)
    program.chmod(0o750)
    os.utime(program, (1_000_000_000, 1_000_000_000))
    status, output = workflow.run()
    assert status == 0, output
    assert (workflow.folder / "seen").read_text() == "750 1000000000\n"


def test_of_an_input_that_the_site_has_only_what_has_changed_travels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    async def staged(*arguments: Any, **options: Any) -> Mapping[str, Any]:
        done = await stage(*arguments, **options)
        sent.append(done["sent_bytes"])
        return done

    monkeypatch.setattr(rule_jobs, "stage", staged)
    monkeypatch.chdir(tmp_path)
    mesh = tmp_path / "mesh"
    mesh.write_bytes(os.urandom(4 * RANGE_B))
    site, jobs = Site("alpha", work=f"{tmp_path}/work"), RuleJobs()
    try:
        for number in range(3):
            needs = Needs(), ("mesh",), ("copy",), (), tmp_path / "log", tmp_path / "arriving"
            task = jobs.begin(site, RuleJob(f"study-{number}", "cp mesh copy", *needs))
            task.wait()
            ended = task.ended()
            assert ended is not None
            assert not ended.failure
            assert (tmp_path / "copy").read_bytes() == mesh.read_bytes()
            if number == 1:
                with mesh.open("r+b") as file:
                    file.write(b"changed")
    finally:
        jobs.close()
    assert sent == [4 * RANGE_B, 0, RANGE_B]


def test_a_site_of_another_kind_is_told_what_to_install(tmp_path: Path, server: Sshd) -> None:
    (uname := server.home / "bin/uname").parent.mkdir()
    uname.write_text("#!/bin/sh\necho Linux riscv64\n")
    uname.chmod(0o755)
    workflow = AtASite(tmp_path / "study", server, failing("touch {output}"))
    status, output = workflow.run()
    assert status != 0
    assert "site alpha: it is Linux riscv64, and needs a program mto" in output
    assert workflow.left() == []


def test_a_site_whose_disk_is_full_is_told(tmp_path: Path) -> None:
    limited = """ForceCommand ulimit -f 10240; exec sh -c "$SSH_ORIGINAL_COMMAND\""""
    with running_sshd(tmp_path / "sshd", settings=limited) as server:
        workflow = AtASite(tmp_path / "study", server, failing("touch {output}", more='input: "large"'))
        (workflow.folder / "large").write_bytes(bytes(20 * 2**20))
        status, output = workflow.run()
        assert status != 0
        assert "site alpha: staging failed: large did not arrive whole" in output
        assert "File too large); make room there, or set another work directory" in output
        assert workflow.left() == []


def failing(command: str, more: str = "") -> str:
    return f'rule one:\n    output: "out.txt"\n    {more}\n    resources: site="alpha"\n    shell: "{command}"\n'


def test_a_failure_is_told_with_site_status_and_last_words(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, failing("echo the well is dry >&2; exit 7"))
    status, output = workflow.run()
    assert status != 0
    assert "command ended with exit status 7 on" in output
    assert "at alpha: the well is dry" in output
    assert workflow.left() == []


def test_a_command_may_write_as_much_as_it_likes(tmp_path: Path, server: Sshd) -> None:
    snakefile = """
rule talk:
    output: "done"
    resources: site="alpha"
    shell: "seq 400000; seq 400000 >&2; touch {output}"
"""
    workflow = AtASite(tmp_path / "study", server, snakefile)
    status, output = workflow.run()
    assert status == 0, output
    (log,) = (workflow.folder / ".snakemake/xmml/logs/talk").iterdir()
    assert log.read_text().splitlines() == [str(number) for number in range(1, 400001)] * 2
    assert workflow.left() == []


def test_the_log_of_a_failed_rule_comes_back(tmp_path: Path, server: Sshd) -> None:
    workflow = AtASite(tmp_path / "study", server, failing("echo why > {log}; exit 1", more='log: "one.log"'))
    workflow.run()
    assert (workflow.folder / "one.log").read_text() == "why\n"


def test_a_command_that_does_not_write_its_output_fails(tmp_path: Path, server: Sshd) -> None:
    status, output = AtASite(tmp_path / "study", server, failing("true")).run()
    assert status != 0
    assert "the command ended well at alpha without writing out.txt" in output


def test_a_site_that_cannot_be_reached_is_named(tmp_path: Path, server: Sshd) -> None:
    server.refuse_key()
    status, output = AtASite(tmp_path / "study", server, failing("touch {output}")).run()
    assert status != 0
    assert "alpha" in output
    assert "key" in output


def test_a_path_outside_of_the_folder_is_refused(tmp_path: Path, server: Sshd) -> None:
    snakefile = (
        f'rule one:\n    output: "{tmp_path}/far.txt"\n    resources: site="alpha"\n    shell: "touch {{output}}"\n'
    )
    status, output = AtASite(tmp_path / "study", server, snakefile).run()
    assert status != 0
    assert "far.txt cannot be taken to alpha: write paths relative to the working folder" in output


def test_a_rule_that_needs_snakemake_runs_only_here(tmp_path: Path, server: Sshd) -> None:
    snakefile = (
        'rule one:\n    output: "a"\n    resources: site="alpha"\n    run:\n        open(output[0], "w").close()\n'
    )
    status, output = AtASite(tmp_path / "study", server, snakefile).run()
    assert status != 0
    assert "a rule without shell: can only run on this machine" in output


def test_an_unknown_site_is_told_with_those_there_are(tmp_path: Path, server: Sshd) -> None:
    snakefile = failing("touch {output}").replace("alpha", "alhpa")
    status, output = AtASite(tmp_path / "study", server, snakefile).run()
    assert status != 0
    assert 'there is no site "alhpa"; the sites are: alpha' in output


def test_resources_that_a_job_cannot_have_are_told_once(tmp_path: Path, server: Sshd) -> None:
    snakefile = """
rule all:
    input: "1.out", "2.out", "here.out"
rule there:
    output: "{number}.out"
    wildcard_constraints: number="[0-9]"
    resources: site="alpha", slurm_partition="long", tasks=4
    shell: "touch {output}"
rule here:
    output: "here.out"
    resources: constraint="fast", runtime=5
    shell: "touch {output}"
"""
    status, output = AtASite(tmp_path / "study", server, snakefile).run()
    assert status == 0, output
    for told in (
        "rule there: resources without effect: slurm_partition: alpha has no queue of Slurm",
        "rule there: resources without effect: tasks: a job at a site has one node",
        "rule here: resources without effect: constraint: it runs on this machine",
    ):
        assert output.count(told) == 1, output


WAITS = "touch '{waits}'; while [ ! -e '{go}' ]; do sleep 0.02; done; echo done > {{output}}"


def test_ctrl_c_ends_the_job_there_and_leaves_nothing(tmp_path: Path, server: Sshd) -> None:
    waits, go = tmp_path / "waits", tmp_path / "go"
    workflow = AtASite(tmp_path / "study", server, failing(WAITS.format(waits=waits, go=go)))
    with workflow.going() as running:
        wait_until(waits.exists, "the job does not begin")
        os.kill(running.pid, signal.SIGINT)
        status, output = ended(running)
    assert status != 0, output
    assert server.wait_until_nothing_runs() == {}
    assert workflow.left() == []


def test_a_job_goes_on_where_a_killed_snakemake_left_it(tmp_path: Path, server: Sshd) -> None:
    waits, go = tmp_path / "waits", tmp_path / "go"
    workflow = AtASite(tmp_path / "study", server, failing(WAITS.format(waits=waits, go=go)))
    with workflow.going():
        wait_until(waits.exists, "the job does not begin")
    waits.unlink()
    workflow.run("--unlock")
    with workflow.going() as again:
        go.touch()
        status, output = ended(again)
    assert status == 0, output
    assert not waits.exists()  # it was not started a second time
    assert (workflow.folder / "out.txt").read_text() == "done\n"
    assert workflow.left() == []


def test_the_job_of_a_rule_has_the_options_that_the_file_of_sites_says(tmp_path: Path) -> None:
    site = Site("alpha", ssh="alpha", scheduler="slurm", partition="long", options=("--constraint=fast",))
    job = RuleJob("study-1", "true", Needs(threads=3), (), (), (), tmp_path / "log", tmp_path / "arriving")
    text = by_name("slurm").render(script_of(job, site, "/home/me/xmml/snakemake/study-1"))
    for line in ("#SBATCH --constraint=fast", "#SBATCH --partition=long", "#SBATCH --ntasks-per-node=3"):
        assert line in text.splitlines()


def test_a_rule_at_the_cluster_of_this_machine_goes_into_its_queue(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 'sbatch: error: no job today' >&2; exit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "sites.toml").write_text(f'[site.alpha]\nscheduler = "slurm"\ncores = 4\nwork = "{tmp_path}/work"\n')
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    status, output = Workflow(tmp_path, failing("touch {output}"), "--xmml-sites", "sites.toml", env=env).run()
    assert status != 0
    assert "alpha: Slurm does not take the job: no job today" in output
    assert not (tmp_path / "out.txt").exists()


def test_a_job_that_is_just_being_submitted_when_it_is_cancelled_is_taken_out_of_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {
        "sbatch": f"touch '{tmp_path}/asked'; while [ ! -e '{tmp_path}/go' ]; do sleep 0.02; done; echo 7",
        "scancel": f'echo "$*" > "{tmp_path}/cancelled"',
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    site = Site("alpha", scheduler="slurm", work=f"{tmp_path}/work")
    jobs = RuleJobs()
    try:
        job = RuleJob("study-1", "true", Needs(), (), (), (), tmp_path / "log", tmp_path / "arriving")
        task = jobs.begin(site, job)
        wait_until((tmp_path / "asked").exists, "it is not being submitted")
        task.interrupt()
        (tmp_path / "go").touch()
        task.wait()
        assert (tmp_path / "cancelled").read_text().split()[-1] == "7"
    finally:
        (tmp_path / "go").touch()
        jobs.close()
    assert [path.name for path in (tmp_path / "work").iterdir()] == [STORE]
