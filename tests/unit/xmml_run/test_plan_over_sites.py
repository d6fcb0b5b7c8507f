"""`xmml plan` and `xmml-run --dry-run` over several sites."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from recorded import recorded
from scripts import write_python
from xmml_planner import plan_from_text
from xmml_run.main import xmml, xmml_run

ARTERY = Path(__file__).parents[3] / "docs" / "examples" / "artery"
MODEL, SITES = str(ARTERY / "model.xmml"), str(ARTERY / "sites.toml")
Capture = pytest.CaptureFixture[str]
COMMANDS = [lambda words: xmml(["plan", *words]), lambda words: xmml_run([*words, "--dry-run"])]


def test_the_plan_is_told_as_a_table(capsys: Capture) -> None:
    assert xmml(["plan", MODEL, "--sites", SITES]) == 0
    assert "expected to end" in capsys.readouterr().out


def test_the_suffix_says_whether_it_is_written_as_json_or_as_a_picture(tmp_path: Path) -> None:
    for name in ("plan.json", "plan.png"):
        assert xmml(["plan", MODEL, "--sites", SITES, "-o", str(tmp_path / name)]) == 0
    assert plan_from_text((tmp_path / "plan.json").read_text()).sites
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_a_plan_for_this_machine_alone_has_no_picture(tmp_path: Path, capsys: Capture) -> None:
    assert xmml(["plan", MODEL, "-o", str(tmp_path / "plan.svg")]) == 2
    assert "only plans over sites" in capsys.readouterr().err


def test_a_dry_run_shares_the_plan(capsys: Capture) -> None:
    assert xmml_run([MODEL, "--sites", SITES, "--place", "plot=beta", "--dry-run", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert next(each["site"] for each in told["plan"]["instances"] if each["name"] == "plot") == "beta"


def test_a_dry_run_leaves_the_name_of_the_run_open_on_this_machine_too(capsys: Capture) -> None:
    assert xmml_run([MODEL, "--sites", SITES, "--place", "plot=beta", "--dry-run"]) == 0
    (relay,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("this machine: ")]
    assert "/runs/RUN/relays/" in relay


@pytest.mark.parametrize(("wish", "is_told"), [("core", True), ("none", False)])
def test_a_binding_that_counts_on_this_machine_alone_is_told(capsys: Capture, wish: str, is_told: bool) -> None:
    assert xmml_run([MODEL, "--sites", SITES, "--bind", wish, "--dry-run"]) == 0
    assert (f"--bind {wish} counts on this machine alone; at sites and in jobs" in capsys.readouterr().err) == is_told


def test_settings_of_jobs_are_in_the_plan_and_at_no_other_site(capsys: Capture) -> None:
    given = ["--job", "alpha.partition=long", "--job", "alpha.options=--exclusive", "--job", "walltime=12 h"]
    assert xmml(["plan", MODEL, "--sites", SITES, "--place", "plot=beta", *given, "-o", "-"]) == 0
    plan = plan_from_text(capsys.readouterr().out)
    described = {site.name: site for site in plan.sites}
    assert (described["alpha"].partition, described["alpha"].options[-1:]) == ("long", ("--exclusive",))
    assert (described["beta"].partition, described["beta"].options) != ("long", ("--exclusive",))
    assert {job.walltime_s for job in plan.jobs if described[job.site].has_queue} == {43200.0}


@pytest.mark.parametrize(
    "command", [lambda words: xmml(["plan", *words]), lambda words: xmml_run([*words, "--dry-run"])]
)
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--sites", SITES, "--place", "flow=beta"], 3, "beta: has no openfoam"),
        (["--sites", SITES, "--max-cost", "1"], 3, "no plan costs less than"),
        (["--sites", SITES, "--place", "flo=alpha"], 2, 'no instance "flo"; did you mean "flow"?'),
        (["--sites", SITES, "--place", "flow=alpa"], 2, 'no site "alpa"; did you mean "alpha"?'),
        (["--sites", SITES, "--job", "alpah.qos=low"], 2, '--job alpah.qos: there is no site "alpah"; did you mean'),
        (["--sites", SITES, "--job", "walltime=1 s"], 3, "longer than its walltime of 1 s"),
        (["--job", "qos=low"], 2, "--job needs the sites to choose from"),
        (["--place", "flow=alpha"], 2, "--place needs the sites to choose from"),
        (["--max-cost", "1"], 2, "--max-cost needs the sites to choose from"),
        (["--sites", "nowhere.toml"], 1, "cannot read the sites: No such file"),
    ],
)
def test_what_cannot_be_planned_has_its_exit_status_and_reason(
    command: object, arguments: list[str], status: int, says: str, capsys: Capture
) -> None:
    assert command([MODEL, *arguments]) == status  # type: ignore[operator]
    assert says in capsys.readouterr().err


#: Answers as Slurm has of a job with two nodes of cluster alpha, in the partition batch.
SCONTROL = """import sys
match sys.argv[1:]:
    case ["show", "job", *_]: print({job!r})
    case ["show", "hostnames", *_]: print("alpha1\\nalpha2")
    case ["show", "node", *_]: print({node!r})
"""


@pytest.fixture
def in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process runs in a job of Slurm."""
    job, node = recorded("slurm/show_job").stdout, recorded("slurm/show_node").stdout
    write_python(tmp_path / "scontrol", SCONTROL.format(job=job, node=node))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in {"JOB_ID": "31", "CLUSTER_NAME": "alpha", "JOB_PARTITION": "batch"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)


@pytest.mark.usefixtures("in_a_job")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("partition", "says"),
    [
        ("long", "the nodes of job 31 of cluster alpha are not used: it is at none of the sites alpha"),
        ("batch", "site alpha: job 31 has 2 nodes (alpha1, alpha2), each with 3 cores"),
    ],
)
def test_a_refusal_in_a_job_says_what_became_of_its_nodes(
    command: object, partition: str, says: str, tmp_path: Path, capsys: Capture
) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text(f'[site.alpha]\nscheduler = "slurm"\npartition = "{partition}"\ncores = 4\n')
    assert command([MODEL, "--sites", str(sites)]) == 3  # type: ignore[operator]
    refusal, *_, note = capsys.readouterr().err.splitlines()
    assert "no plan satisfies the sites" in refusal
    assert note.startswith(says)


def test_a_mistake_in_the_file_of_sites_is_shown_with_its_place(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "sites.toml").write_text("[site.alpha]\nshh = 'alpha'\n")
    assert xmml(["plan", MODEL, "--sites", str(tmp_path / "sites.toml")]) == 1
    told = capsys.readouterr().err
    assert 'sites.toml:2:1: error[S02]: site alpha: there is no key "shh"' in told
    assert 'did you mean "ssh"?' in told


def test_check_plan_and_run_refuse_a_part_of_a_cluster_with_another_ssh(tmp_path: Path, capsys: Capture) -> None:
    sites = str(tmp_path / "sites.toml")
    Path(sites).write_text(
        '[site.alpha]\nssh = "nowhere-a"\ncores = 4\n[site.beta]\nlike = "alpha"\nssh = "nowhere-b"\n'
    )
    for command in (["sites", "check", "beta", "--sites", sites], ["plan", MODEL, "--sites", sites]):
        assert xmml(command) != 0
        assert "sites.toml:6:1: error[S06]: site beta: ssh cannot differ from alpha" in capsys.readouterr().err
    assert xmml_run([MODEL, "--sites", sites, "-o", str(tmp_path / "run")]) != 0
    assert "sites.toml:6:1: error[S06]: site beta: ssh cannot differ from alpha" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_plan_that_has_its_sites_takes_no_others(tmp_path: Path, capsys: Capture) -> None:
    made = str(tmp_path / "plan.json")
    assert xmml(["plan", MODEL, "--sites", SITES, "-o", made]) == 0
    assert xmml(["plan", made, "--sites", SITES]) == 2
    assert "leave out --sites" in capsys.readouterr().err


@pytest.fixture
def linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in whose folder links lead elsewhere."""
    shutil.copytree(ARTERY, tmp_path / "model")
    (tmp_path / "elsewhere/data").mkdir(parents=True)
    (tmp_path / "elsewhere/key").touch()
    (tmp_path / "model/key").symlink_to("../elsewhere/key")
    monkeypatch.chdir(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_links_lead_to_elsewhere_is_sent_to_no_site(linked: Path, command: object, capsys: Capture) -> None:
    assert command(["model.xmml", "--sites", SITES]) == 1  # type: ignore[operator]
    told = capsys.readouterr().err
    assert 'model.xmml:6:7: error[E30]: site beta would get "key", which leads to' in told
    assert f'"{linked.parent / "elsewhere/key"}"' in told
    assert command(["model.xmml", "--sites", SITES, "--allow-outside"]) == 0  # type: ignore[operator]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "kept_away", ["ignored", "replaced", "in the working folder", "a folder, which is not followed"]
)
def test_a_link_is_no_harm_that_no_site_gets_or_that_stays_near(
    linked: Path, command: object, kept_away: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept_away == "ignored":
        (linked / ".xmmlignore").write_text("key\n")
    elif kept_away == "replaced":
        (linked / "key").unlink()
        (linked / "key").touch()
    elif kept_away == "in the working folder":
        monkeypatch.chdir(linked.parent)
    else:
        (linked / "key").unlink()
        (linked / "data").symlink_to("../elsewhere/data")
    assert command([str(linked / "model.xmml"), "--sites", SITES]) == 0  # type: ignore[operator]


def test_without_the_solver_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ortools.sat.python.cp_model", None)
    assert xmml(["plan", MODEL, "--sites", SITES]) == 2
    assert 'pip install "xmml[sites]"' in capsys.readouterr().err
