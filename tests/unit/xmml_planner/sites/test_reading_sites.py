"""Reading a `sites.toml`: what it means, and what is said about mistakes in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bounds import bounded_time
from site_files import FULL, MISTAKES
from xmml_planner.sites import HERE, Link, RelaySite, SitesError, local_catalogue, read_sites, sites_from_text
from xmml_planner.sites.reading import CODES, MOST_LIKE


def problems(text: str) -> list[str]:
    """What is said about a text, each problem as people see it."""
    with pytest.raises(SitesError) as caught:
        sites_from_text(text)
    return [str(problem) for problem in caught.value.problems]


def test_every_key_of_a_site_is_read_into_base_units() -> None:
    alpha = sites_from_text(FULL)["alpha"]
    assert (alpha.ssh, alpha.transport, alpha.scheduler) == ("me@alpha.example.org:2222", "openssh", "slurm")
    assert (alpha.partition, alpha.account, alpha.qos, alpha.reservation) == ("batch", "abc", "normal", "course")
    assert (alpha.can_reserve, alpha.walltime_s, alpha.queue_wait_s, alpha.cost) == (True, 7200, 600, 0.02)
    assert (alpha.options, alpha.modules) == (("--constraint=fast",), ("openmpi",))
    assert (alpha.setup, alpha.env) == (("source /opt/x/env.sh",), {"OMP_NUM_THREADS": "1"})
    assert (alpha.nodes, alpha.cores, alpha.all_cores, alpha.memory_bytes) == (2, 4, 8, 16 * 2**30)
    assert (alpha.gpus, alpha.all_gpus, alpha.speed, alpha.mpi) == (1, 2, 1.5, "aprun -n {ranks}")
    assert alpha.container == "apptainer exec --rocm {image}"
    assert (alpha.work, alpha.python, alpha.software) == ("/scratch/me", "/opt/xmml/bin/python", ("openfoam",))
    assert alpha.relay == RelaySite("login", 40001, "login.alpha.org:40001", through_ssh=False)


def test_every_value_knows_its_line_also_one_of_the_cluster_that_the_site_is_a_part_of() -> None:
    text = '[site.a]\nscheduler = "slurm"\ncores = 4\n\n[site.b]\nlike = "a"\ncores = 8\n'
    part = sites_from_text(text, "my.toml")["b"]
    assert part.origin == {"like": "my.toml:6", "cores": "my.toml:7", "scheduler": "my.toml:2"}


def test_a_link_is_read_into_base_units() -> None:
    assert sites_from_text(FULL).links == (Link(("alpha", "beta"), 0.01, 125e6, 8, ("tcp", "relay"), encrypt=False),)


def test_what_is_left_out_has_sensible_values() -> None:
    catalogue = sites_from_text(FULL)
    beta = catalogue["beta"]
    assert (beta.dialect, beta.mpi, beta.python, beta.transport) == ("openpbs", "mpirun", "python3", "asyncssh")
    assert (beta.walltime_s, beta.queue_wait_s, beta.memory_bytes, beta.relay) == (None, None, None, None)
    slurm = sites_from_text('[site.a]\nssh = "a"\nscheduler = "slurm"\ncores = 1\n')["a"]
    assert (slurm.mpi, slurm.relay) == ("srun", RelaySite())


def test_a_site_that_says_nothing_is_this_machine() -> None:
    here = sites_from_text("[site.laptop]\n")["laptop"]
    assert (here.is_here, here.has_queue, here.python) == (True, False, sys.executable)
    assert here.cores == local_catalogue()[HERE].cores


def test_a_site_takes_from_the_one_it_is_like_what_it_does_not_say() -> None:
    catalogue = sites_from_text(FULL + '[site.gpu]\nlike = "alpha"\npartition = "gpu"\ngpus = 4\n')
    gpu = catalogue["gpu"]
    assert (gpu.partition, gpu.gpus, gpu.ssh, gpu.cores) == ("gpu", 4, "me@alpha.example.org:2222", 4)
    assert catalogue.cluster("gpu") == "alpha"


@pytest.mark.parametrize(
    "line",
    [
        'ssh = "beta"',
        'transport = "asyncssh"',
        'scheduler = "pbs"',
        "can_reserve = false",
        'work = "/home/me"',
        "relay = false",
        '[site.gpu.relay]\nhost = "login2"',
    ],
)
def test_a_part_of_a_cluster_says_nothing_else_of_the_cluster(line: str) -> None:
    """The run would log in, submit, and keep its files where the cluster says, whatever its part says."""
    (told,) = problems(FULL.replace("[[link]]", f'[site.gpu]\nlike = "alpha"\n{line}\n[[link]]'))
    assert "site gpu: " in told
    assert " cannot differ from alpha, which it is like: the two are parts of one cluster" in told
    assert "for another cluster or machine leave like out, and write here what it has in common with alpha" in told


def test_a_site_that_differs_in_all_from_the_one_it_is_like_is_told_so_once() -> None:
    other = 'ssh = "gpu"\nscheduler = "pbs"\nwork = "/home/me"\n'
    (told,) = problems(FULL + f'[site.gpu]\nlike = "alpha"\n{other}')
    assert "site gpu: ssh and scheduler and work cannot differ from alpha" in told


def test_a_part_of_a_part_is_compared_with_what_that_has_taken_from_the_cluster() -> None:
    parts = '[site.gpu]\nlike = "alpha"\n[site.big]\nlike = "gpu"\nssh = "beta"\n'
    (told,) = problems(FULL + parts)
    assert "site big: ssh cannot differ from gpu" in told


def test_a_part_of_a_cluster_may_repeat_what_the_cluster_says() -> None:
    catalogue = sites_from_text(FULL + '[site.gpu]\nlike = "alpha"\nssh = "me@alpha.example.org:2222"\n')
    assert catalogue.cluster("gpu") == "alpha"


def test_a_pair_without_a_link_has_that_of_their_clusters_a_fast_one_within_a_cluster_else_a_guess() -> None:
    catalogue = sites_from_text(FULL + '[site.gpu]\nlike = "alpha"\n[site.laptop]\n')
    assert catalogue.link("gpu", "beta").bandwidth == 125e6
    within = catalogue.link("alpha", "gpu")
    assert within.assumed
    assert within.methods == ("tcp", "relay")
    assert catalogue.link("laptop", "beta").assumed
    assert catalogue.link("laptop", "beta").methods == ("relay",)


def test_the_used_part_of_a_catalogue_keeps_what_its_sites_are_like_and_their_links() -> None:
    catalogue = sites_from_text(FULL + '[site.gpu]\nlike = "alpha"\n[site.laptop]\n')
    part = catalogue.only(["gpu", "beta"])
    assert list(part.sites) == ["alpha", "beta", "gpu"]
    assert part.links == catalogue.links


@pytest.mark.parametrize(
    ("text", "seconds"), [("2 h", 7200), ("90 min", 5400), ("02:30:00", 9000), ("1-12:00:00", 129600)]
)
def test_a_walltime_may_be_written_as_schedulers_do(text: str, seconds: float) -> None:
    assert sites_from_text(f'[site.a]\nwalltime = "{text}"\n')["a"].walltime_s == seconds


def test_a_mistake_is_shown_with_its_line_a_caret_and_what_to_write() -> None:
    (told,) = problems('[site.alpha]\nssh = "alpha"\ncores = 4\nwaltime = "2 h"\n')
    assert told == (
        'sites.toml:4:1: error[S02]: site alpha: there is no key "waltime"\n'
        '    4 | waltime = "2 h"\n'
        "      | ^^^^^^^\n"
        '   help: did you mean "walltime"?'
    )


@pytest.mark.parametrize(("text", "place", "message", "help"), MISTAKES, ids=[case[2] for case in MISTAKES])
def test_a_mistake_of_a_newcomer_is_explained(text: str, place: str, message: str, help: str) -> None:
    (told,) = problems(text)
    assert told.startswith(f"sites.toml:{place}"), told
    first, _, rest = told.partition("\n")
    assert message in first
    assert help in told
    assert "^" in rest or not text, told


def test_every_code_is_shown_by_a_mistake() -> None:
    assert {place.partition("[")[2][:3] for _, place, _, _ in MISTAKES} == set(CODES)


def test_all_mistakes_are_told_at_once_in_their_order() -> None:
    told = problems('[site.a]\nssh = 1\ncores = "x"\nfoo = 2\n[[link]]\nbetween = ["a", "q"]\n')
    assert [line.split(":")[1] for line in told] == ["2", "3", "4", "6"]


@pytest.mark.parametrize(
    "text",
    [
        '[site.a]\nssh = "a"\ncores = "4"\n',
        '[site.a]\nssh = "a"\ncores = 4\nscheduler = "lsf"\npartition = "batch"\n',
        '[site.a]\nssh = "a"\ncores = 4\nscheduler = "pbspro"\ndialect = "torque"\n',
        '[site.a]\nssh = 5\ncores = 4\ntransport = "openssh"\n',
        '[site.a]\nssh = 5\ncores = 4\n[site.b]\nlike = "a"\nssh = "b"\n',
    ],
)
def test_a_value_that_cannot_be_read_is_told_once_and_not_as_missing_too(text: str) -> None:
    (told,) = problems(text)
    assert "error[S03]" in told


def test_what_a_site_is_like_is_told_there_only() -> None:
    (told,) = problems('[site.a]\nssh = "a"\nscheduler = "slurm"\ncores = "4"\n[site.b]\nlike = "a"\npartition = "x"\n')
    assert told.startswith("sites.toml:4:9: error[S03]")


def test_a_file_that_is_not_there_or_not_text_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(SitesError, match="No such file"):
        read_sites(tmp_path / "sites.toml")
    (tmp_path / "sites.toml").write_bytes(b"\xff")
    with pytest.raises(SitesError, match="not UTF-8"):
        read_sites(tmp_path / "sites.toml")
    with pytest.raises(SitesError, match="Is a directory"):
        read_sites(tmp_path)


def test_of_a_file_that_is_not_there_the_one_with_a_similar_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").touch()
    with pytest.raises(SitesError) as caught:
        read_sites(tmp_path / "site.toml")
    assert caught.value.problems[0].help == f"did you mean {tmp_path / 'sites.toml'}?"


def test_control_characters_of_a_file_do_not_reach_the_terminal() -> None:
    (told,) = problems('[site."\\u001b[2J"]\n')
    assert "\x1b" not in told


def chain(length: int) -> str:
    """Return a cluster with a part of a part of ... it."""
    rest = "".join(f'[site.s{number}]\nlike = "s{number - 1}"\n' for number in range(1, length + 1))
    return f'[site.s0]\nssh = "a"\ncores = 4\n{rest}'


def test_parts_of_parts_are_read_to_a_depth_and_then_refused_once_with_their_place() -> None:
    assert sites_from_text(chain(MOST_LIKE))[f"s{MOST_LIKE}"].cores == 4
    (told,) = problems(chain(MOST_LIKE + 3))
    assert told.startswith(f"sites.toml:{2 * MOST_LIKE + 5}:8: error[S06]: site s{MOST_LIKE + 1} is a part of a part")


def test_a_large_catalogue_is_read() -> None:
    text = "".join(f'[site.s{number}]\nssh = "host{number}"\ncores = 4\n' for number in range(2000))
    with bounded_time():
        assert len(sites_from_text(text).sites) == 2000


@pytest.mark.parametrize("key", ["walltime", "queue_wait", "memory"])
@pytest.mark.parametrize("text", [".e" * 100_000 + " x y", "1" + " " * 100_000 + "x y", "1" * 100_000, "." * 100_000])
def test_an_endless_quantity_is_refused_at_once(key: str, text: str) -> None:
    with bounded_time():
        assert any(f"site a: {key}: " in told for told in problems(f'[site.a]\ncores = 4\n{key} = "{text}"\n'))
