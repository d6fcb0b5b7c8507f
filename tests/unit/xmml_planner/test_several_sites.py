"""Plans over several sites: who goes where, in which jobs, over which ways, and why there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from xmml_planner import NoPlan, Plan, WishError, plan, plan_from_text, summary
from xmml_planner.problems import NodesWanted
from xmml_planner.several_sites import plan_over_sites
from xmml_planner.sites import SiteCatalogue, sites_from_text
from xmml_planner.sites.allocation import AllocatedNode, Allocation, allocation_catalogue

from xmml.model import Model

MakeModel = Callable[..., Model]

ALPHA = '[site.alpha]\nssh = "alpha"\nscheduler = "slurm"\nnodes = 2\ncores = 4\n'
BETA = '[site.beta]\nssh = "beta"\nscheduler = "pbs"\nnodes = 2\ncores = 4\n'
LAPTOP = "[site.laptop]\ncores = 4\n"
LINK = '[[link]]\nbetween = ["alpha", "beta"]\nlatency = "10 ms"\nbandwidth = "1 Gbit/s"\n'

LISTENS = '[site.alpha.relay]\nlisten = "login.alpha.org:40001"\n'
SPLIT = {"macro": "alpha", "micro": "beta"}

#: A macro model that calls a micro model in each of its ten steps.
CALLS = """
<coupling from="macro.state" to="micro.start"/> <coupling from="micro.end" to="macro.reacted"/>"""


def definitions(macro: str = "", micro: str = "", size: str = "") -> str:
    """Two submodels, with these attributes of their implementations."""
    return f"""
    <submodel id="Macro"><timescale delta="1 s" total="10 s"/>
      <ports><out id="state" operator="Oi"/><in id="reacted" operator="S"/></ports>
      <implementation path="macro.py" language="python" runtime="100 s" {macro}/></submodel>
    <submodel id="Micro"><timescale delta="100 ms" total="1 s"/>
      <ports><in id="start" operator="finit"/><out id="end" operator="Of"/></ports>
      <implementation path="micro.py" language="python" runtime="50 s" {micro}/></submodel>"""


TWO = '<instance id="macro" submodel="Macro"/><instance id="micro" submodel="Micro"/>'


@pytest.fixture
def calling(model: MakeModel, tmp_path: Path) -> Callable[..., Model]:
    """Returns the macro and the micro model, with these attributes of their implementations."""

    def make(macro: str = "", micro: str = "", topology: str = TWO + CALLS) -> Model:
        for name in ("macro.py", "micro.py"):
            (tmp_path / name).write_text("")
        return model(topology, definitions(macro, micro))

    return make


def planned(model: Model, *sites: str, **options: object) -> Plan:
    return plan_over_sites(model, sites_from_text("".join(sites)), **options)  # type: ignore[arg-type]


def places(made: Plan) -> dict[str, str]:
    return {instance.name: instance.site for instance in made.instances}


def test_without_a_reason_to_leave_everything_runs_on_this_machine(calling: MakeModel) -> None:
    made = planned(calling(), LAPTOP, ALPHA, "queue_wait = '1 min'\n")
    assert places(made) == {"macro": "laptop", "micro": "laptop"}
    assert (made.routes, made.relays, made.paths, made.stage) == ((), (), (), ())


def test_a_fast_site_is_worth_its_queue_if_enough_is_computed_there(calling: MakeModel) -> None:
    fast = planned(calling(), LAPTOP, ALPHA, "queue_wait = '1 min'\nspeed = 2\n")
    assert places(fast) == {"macro": "alpha", "micro": "alpha"}
    assert fast.expected is not None
    assert fast.expected.makespan_s == pytest.approx(60 + 600 / 2, rel=1e-3)
    slow = planned(calling(), LAPTOP, ALPHA, "queue_wait = '1 h'\nspeed = 2\n")
    assert places(slow) == {"macro": "laptop", "micro": "laptop"}


def test_a_wish_is_fulfilled_and_its_price_predicted(calling: MakeModel) -> None:
    made = planned(calling(), ALPHA, LISTENS, BETA, LINK, wishes=SPLIT)
    assert places(made) == SPLIT
    assert made.expected is not None
    assert made.expected.makespan_s == pytest.approx(100 + 10 * 50 + 10 * 2 * 0.01, rel=1e-6)
    assert made.expected.at_least_s == pytest.approx(made.expected.makespan_s, rel=1e-5)


def test_one_copy_can_have_a_wish_of_its_own(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    one = """<submodel id="X"><timescale delta="1 s" total="1 s"/><ports/>
      <implementation path="x.py" language="python" runtime="9 s"/></submodel>"""
    made = planned(
        model('<instance id="x" submodel="X" multiplicity="3"/>', one),
        LAPTOP,
        ALPHA,
        wishes={"x": "alpha", "x[1]": "laptop"},
    )
    assert places(made) == {"x[0]": "alpha", "x[1]": "laptop", "x[2]": "alpha"}


def test_a_wish_for_what_there_is_not_is_explained(calling: MakeModel) -> None:
    with pytest.raises(WishError, match='no instance "mikro"; did you mean "micro"'):
        planned(calling(), ALPHA, wishes={"mikro": "alpha"})
    with pytest.raises(WishError, match='no site "alfa"; did you mean "alpha"'):
        planned(calling(), ALPHA, wishes={"micro": "alfa"})


def test_software_memory_and_gpus_decide_where_a_program_can_be(calling: MakeModel) -> None:
    for needs, offers in (
        ('run:needs="openfoam"', 'software = ["openfoam"]'),
        ('memory="20 GB"', 'memory = "32 GiB"'),
        ('run:gpus="1"', "gpus = 2"),
    ):
        small = "" if "memory" not in needs else 'memory = "8 GiB"\n'
        made = planned(calling(micro=needs), LAPTOP, small, ALPHA, small, BETA, offers, "\n")
        assert places(made)["micro"] == "beta"


def test_partners_that_take_turns_share_cores(calling: MakeModel) -> None:
    made = planned(calling('run:threads="4"', 'run:threads="4"'), ALPHA.replace("nodes = 2", "nodes = 1"))
    assert [(job.site, job.cores, job.nodes) for job in made.jobs] == [("alpha", 4, 1)]


def test_what_interacts_has_cores_of_its_own(model: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("")
    one = """<submodel id="X"><timescale delta="1 s" total="9 s"/>
      <ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>
      <implementation path="x.py" language="python" run:threads="3" runtime="9 s"/></submodel>"""
    both = """<instance id="a" submodel="X"/><instance id="b" submodel="X"/>
      <coupling from="a.o" to="b.i"/><coupling from="b.o" to="a.i"/>"""
    with pytest.raises(NoPlan, match="needs 6 cores, all sites together have 4 cores"):
        planned(model(both, one), ALPHA.replace("nodes = 2", "nodes = 1"))
    made = planned(model(both, one), ALPHA)
    assert [(job.cores, job.nodes) for job in made.jobs] == [(6, 2)]


def test_wishes_that_do_not_fit_are_named_where_the_sites_would_do_without_them(
    model: MakeModel, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text("")
    one = """<submodel id="X"><timescale delta="1 s" total="9 s"/>
      <ports><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>
      <implementation path="x.py" language="python" runtime="9 s"/></submodel>"""
    both = """<instance id="a" submodel="X"/><instance id="b" submodel="X"/>
      <coupling from="a.o" to="b.i"/><coupling from="b.o" to="a.i"/>"""
    sites = [
        f"[site.{name}]\ncores = 1\n" + (f'ssh = "{name}"\n' if name != "here" else "") for name in ("here", "far")
    ]
    ways = LINK.replace('"alpha", "beta"', '"here", "far"')
    wishes = {"a": "far", "b": "far"}
    with pytest.raises(NoPlan, match=r"too small for --place a=far --place b=far: .* 1 more core at far"):
        planned(model(both, one), *sites, ways, wishes=wishes)
    with pytest.raises(NoPlan, match="the sites are too small: "):
        planned(
            model(both.replace("<coupling", '<instance id="c" submodel="X"/><coupling', 1), one),
            *sites,
            ways,
            wishes=wishes,
        )


def test_no_plan_says_which_constraint_and_by_how_much(calling: MakeModel) -> None:
    def why(made: Model, *sites: str, **options: object) -> str:
        with pytest.raises(NoPlan) as caught:
            planned(made, *sites, **options)
        return str(caught.value)

    assert '"micro" can run at no site:\n  alpha: too few cores on a node, 4 of 5\n  beta: too few' in why(
        calling(micro='run:threads="5"'), ALPHA, BETA
    )
    assert "alpha: has no openfoam" in why(calling(micro='run:needs="openfoam"'), ALPHA)
    assert "too few GPUs on a node, 0 of 1" in why(calling(micro='run:gpus="1"'), ALPHA)
    assert "too little memory on a node, 1 GiB of 1.86 GiB" in why(
        calling(micro='memory="2 GB"'), ALPHA, 'memory = "1 GiB"\n'
    )
    assert "it is wished to be at alpha" in why(
        calling(micro='run:needs="openfoam"'), ALPHA, BETA, "software = ['openfoam']\n", wishes={"micro": "alpha"}
    )
    assert "a job at alpha would run for 10 min, 8 min longer than its walltime of 2 min" in why(
        calling(), ALPHA, 'walltime = "2 min"\n'
    )
    dear = why(calling(), ALPHA, "cost = 6\n", max_cost=0.5)
    assert dear == "no plan costs less than 1, which is 0.5 more than the 0.5 allowed"


def test_a_cost_limit_makes_the_plan_slower_and_cheaper(calling: MakeModel) -> None:
    sites = (ALPHA, "cost = 6\nspeed = 2\n", BETA, "cost = 0.6\n", LINK)
    assert set(places(planned(calling(), *sites)).values()) == {"alpha"}
    limited = planned(calling(), *sites, max_cost=0.2)
    assert set(places(limited).values()) == {"beta"}
    assert limited.expected is not None
    assert limited.expected.cost == pytest.approx(0.6 * 600 / 3600, rel=1e-3)


def test_messages_that_must_stay_within_a_site_keep_partners_together(calling: MakeModel) -> None:
    local = TWO + CALLS.replace('to="micro.start"', 'to="micro.start" run:methods="shm"')
    with pytest.raises(NoPlan, match='"macro" and "micro" must be at one site'):
        planned(calling(topology=local), ALPHA, BETA, LINK, wishes=SPLIT)
    made = planned(calling(topology=local), ALPHA, BETA, LINK, wishes={"macro": "alpha"})
    assert places(made)["micro"] == "alpha"


def test_a_site_without_a_relay_has_no_way_to_another(calling: MakeModel) -> None:
    with pytest.raises(NoPlan, match=r"there is no way for macro\.state -> micro\.start"):
        planned(calling(), ALPHA, "relay = false\n", BETA, wishes=SPLIT)


def test_a_site_without_a_queue_is_shown_without_a_relay_of_its_own(calling: MakeModel) -> None:
    plain = '[site.beta]\nssh = "beta"\ncores = 4\n'
    shown = summary(planned(calling(), ALPHA, LINK, plain, wishes=SPLIT)).split("relays\n")[1]
    assert re.search(r"^  beta +none +its programs use that of this machine", shown, re.MULTILINE)
    assert not re.search(r"^  (alpha|here) .*none", shown, re.MULTILINE)


def test_relays_that_only_dial_out_meet_at_the_machine_of_the_launch(calling: MakeModel) -> None:
    made = planned(calling(), ALPHA, BETA, LINK, wishes=SPLIT)
    assert [relay.site for relay in made.relays] == ["alpha", "beta", "here"]
    assert [(path.between, path.address) for path in made.paths] == [
        (("here", "alpha"), None),
        (("here", "beta"), None),
    ]
    assert {route.sites for route in made.routes} == {("alpha", "here", "beta"), ("beta", "here", "alpha")}


def test_a_relay_that_listens_is_dialled(calling: MakeModel) -> None:
    made = planned(calling(), ALPHA, LISTENS, BETA, LINK, wishes=SPLIT)
    assert made.routes[0].sites == ("alpha", "beta")
    assert (("beta", "alpha"), "login.alpha.org:40001", 2_500_000) in [
        (path.between, path.address, path.buffer_bytes) for path in made.paths
    ]


def test_instances_that_reach_each_other_connect_directly(calling: MakeModel) -> None:
    made = planned(calling(), ALPHA, BETA, LINK, 'methods = ["tcp", "relay"]\n', wishes=SPLIT)
    assert [(route.sites, route.method) for route in made.routes] == [
        (("alpha", "beta"), "tcp"),
        (("beta", "alpha"), "tcp"),
    ]
    assert {conduit.methods for conduit in made.conduits} == {("tcp", "relay")}


def test_a_conduit_over_a_long_way_has_room_for_what_is_on_it(calling: MakeModel) -> None:
    topology = TWO + CALLS.replace('to="micro.start"', 'to="micro.start" size="50 kB"')
    near = planned(calling(topology=topology), LAPTOP).conduits[0]
    far = planned(calling(topology=topology), ALPHA, LISTENS, BETA, LINK, wishes=SPLIT).conduits[0]
    assert near.capacity < far.capacity
    assert far.capacity * 50_000 >= 2 * 0.01 * 125e6


def test_programs_are_started_with_what_there_is_at_their_site(calling: MakeModel) -> None:
    made = planned(
        calling(micro='run:mpi="4"'),
        ALPHA,
        BETA,
        'python = "/opt/python3"\nmpi = "aprun -B -n {ranks}"\n',
        wishes=SPLIT,
    )
    micro = made.by_name["micro"]
    assert micro.command == ("aprun", "-B", "-n", "4", "/opt/python3", f"{made.model_folder}/micro.py")


def test_what_starts_mpi_programs_here_is_found_on_the_search_path(
    calling: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "ourmpi"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    made = planned(calling(micro='run:mpi="2"'), LAPTOP + 'mpi = "ourmpi -n {ranks}"\n')
    assert made.by_name["micro"].command[:3] == (str(program), "-n", "2")


def test_a_class_in_java_is_started_with_the_jar_of_its_site(model: MakeModel, tmp_path: Path) -> None:
    one = """<submodel id="X" class="demo.X"><timescale delta="1 s" total="1 s"/><ports/>
      <implementation language="java" path="classes"><library name="maths" path="maths.jar"/></implementation>
      </submodel>"""
    made = planned(model('<instance id="x" submodel="X"/>', one), BETA)
    python, flag, code, *rest = made.by_name["x"].command
    assert (python, flag) == ("python3", "-c")
    assert rest == [f"{tmp_path}/classes", f"{tmp_path}/maths.jar", "--", "org.xmml.Host", "demo.X"]
    assert {file.path for file in made.stage} == {"classes", "maths.jar"}
    (tmp_path / "java").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "java").chmod(0o755)
    (tmp_path / "xmml_native").mkdir()
    (tmp_path / "xmml_native" / "__init__.py").write_text("")
    (tmp_path / "xmml_native" / "config.py").write_text("def jar(): return '/site/xmml.jar'\n")
    said = subprocess.run(
        [sys.executable, "-c", code, *rest],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["-cp", f"{rest[0]}:{rest[1]}:/site/xmml.jar", "org.xmml.Host", "demo.X"]


def test_far_sites_are_staged_what_their_programs_need(calling: MakeModel, tmp_path: Path) -> None:
    (tmp_path / "grids").mkdir()
    (tmp_path / "grids" / "__init__.py").write_text("")
    made = planned(
        calling(micro='run:stage-in="grid/*.dat"'), LAPTOP, BETA, wishes={"macro": "laptop", "micro": "beta"}
    )
    assert {(file.site, file.path) for file in made.stage} == {
        ("beta", "micro.py"),
        ("beta", "*.py"),
        ("beta", "grids"),
        ("beta", "grid/*.dat"),
    }


def test_files_that_all_programs_at_a_site_exclude_are_not_staged_there(calling: MakeModel) -> None:
    model = calling('run:build="make" run:stage-exclude="raw/ *.mp4"', 'run:build="make" run:stage-exclude="*.mp4 x"')
    apart = planned(model, ALPHA, BETA, LINK, wishes=SPLIT)
    assert {file.site: file.exclude for file in apart.stage} == {"alpha": ("raw/", "*.mp4"), "beta": ("*.mp4", "x")}
    together = planned(model, ALPHA, BETA, LINK, wishes={"macro": "alpha", "micro": "alpha"})
    assert [(file.path, file.exclude) for file in together.stage] == [(".", ("*.mp4",))]


def test_programs_are_built_at_each_site_that_runs_them(calling: MakeModel) -> None:
    made = planned(calling('run:build="make"', 'run:build="make"'), ALPHA, BETA, LINK, wishes=SPLIT)
    assert [(build.site, build.instances) for build in made.builds] == [("alpha", ("macro",)), ("beta", ("micro",))]
    assert {(file.site, file.path) for file in made.stage} == {("alpha", "."), ("beta", ".")}


CHAIN = """<instance id="first" submodel="First"/><instance id="second" submodel="Second"/>
    <coupling from="first.result" to="second.initial"/>"""


def chain(model: MakeModel, tmp_path: Path, seconds: int, second: str = "") -> Model:
    """A submodel that begins when another one has ended."""
    (tmp_path / "x.py").write_text("")
    return model(
        CHAIN,
        f"""<submodel id="First"><timescale delta="1 s" total="1 s"/><ports><out id="result" operator="Of"/></ports>
      <implementation path="x.py" language="python" runtime="{seconds} s" run:threads="3"/></submodel>
    <submodel id="Second"><timescale delta="1 s" total="1 s"/><ports><in id="initial" operator="finit"/></ports>
      <implementation path="x.py" language="python" runtime="60 s" run:threads="3" {second}/></submodel>""",
    )


def test_what_comes_later_gets_a_later_job_of_its_own(model: MakeModel, tmp_path: Path) -> None:
    made = planned(chain(model, tmp_path, 3600), ALPHA)
    assert [(job.name, job.instances, job.after) for job in made.jobs] == [
        ("alpha-1", ("first",), ()),
        ("alpha-2", ("second",), ("alpha-1",)),
    ]
    assert made.jobs[1].starts_s == pytest.approx(3600, abs=0.1)
    assert made.jobs[0].group != made.jobs[1].group


def test_what_comes_soon_after_shares_the_job(model: MakeModel, tmp_path: Path) -> None:
    (job,) = planned(chain(model, tmp_path, 30), ALPHA).jobs
    assert job.instances == ("first", "second")


def test_one_after_the_other_may_have_the_same_cores_in_one_job(model: MakeModel, tmp_path: Path) -> None:
    (job,) = planned(chain(model, tmp_path, 3600), ALPHA.replace("nodes = 2", "nodes = 1")).jobs
    assert (job.instances, job.cores_per_node) == (("first", "second"), 3)


def test_cores_that_are_too_few_for_what_runs_at_the_same_time_are_named_also_if_something_comes_before(
    model: MakeModel, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text("")
    both = """<instance id="first" submodel="First"/><instance id="a" submodel="X"/><instance id="b" submodel="X"/>
      <coupling from="first.result" to="a.initial"/><coupling from="first.result" to="b.initial"/>
      <coupling from="a.o" to="b.i"/><coupling from="b.o" to="a.i"/>"""
    made = model(
        both,
        """<submodel id="First"><timescale delta="1 s" total="1 s"/><ports><out id="result" operator="Of"/></ports>
      <implementation path="x.py" language="python" runtime="9 s" run:threads="3"/></submodel>
    <submodel id="X"><timescale delta="1 s" total="9 s"/>
      <ports><in id="initial" operator="finit"/><out id="o" operator="Oi"/><in id="i" operator="S"/></ports>
      <implementation path="x.py" language="python" runtime="9 s" run:threads="4"/></submodel>""",
    )
    told = "the sites are too small: what runs at the same time needs 8 cores, all sites together have 4 cores"
    with pytest.raises(NoPlan) as refused:
        planned(made, LAPTOP)
    assert str(refused.value) == told
    assert planned(made, LAPTOP.replace("cores = 4", "cores = 8")).jobs[0].cores_per_node == 8


def test_the_queue_of_a_later_job_is_waited_for_meanwhile(model: MakeModel, tmp_path: Path) -> None:
    made = planned(
        chain(model, tmp_path, 3600, 'run:needs="x"'), LAPTOP, BETA, 'software = ["x"]\nqueue_wait = "30 min"\n'
    )
    assert [(job.site, round(job.starts_s, -1)) for job in made.jobs] == [("laptop", 0), ("beta", 3600)]


def test_a_job_asks_for_more_time_than_is_expected_and_never_for_more_than_there_is(
    model: MakeModel, tmp_path: Path
) -> None:
    (job, _) = planned(chain(model, tmp_path, 3600), ALPHA).jobs
    assert job.walltime_s == pytest.approx(1.5 * 3600 + 600, rel=1e-3)
    (job, _) = planned(chain(model, tmp_path, 3600), ALPHA, 'walltime = "90 min"\n').jobs
    assert job.walltime_s == 5400


def test_a_job_asks_for_the_time_that_the_queue_of_one_after_it_takes(model: MakeModel, tmp_path: Path) -> None:
    first, second = planned(chain(model, tmp_path, 3600), ALPHA, 'queue_wait = "30 min"\n').jobs
    assert first.walltime_s == pytest.approx(1.5 * 3600 + 600 + 1800, rel=1e-3)
    assert second.walltime_s < 3600
    first, _ = planned(chain(model, tmp_path, 3600), ALPHA, 'queue_wait = "30 min"\nwalltime = "2 h"\n').jobs
    assert first.walltime_s == 7200


def test_unknown_run_times_and_guessed_links_are_told(model: MakeModel, tmp_path: Path) -> None:
    for name in ("macro.py", "micro.py"):
        (tmp_path / name).write_text("")
    unknown = model(TWO + CALLS, definitions().replace('runtime="50 s"', ""))
    made = planned(unknown, ALPHA, BETA, wishes=SPLIT)
    assert made.expected is not None
    assert made.expected.guessed == ("alpha - here", "beta - here")
    assert made.expected.unknown == ("micro",)


def test_a_job_of_unknown_length_asks_for_what_its_site_says_else_for_what_its_queue_gives(
    model: MakeModel, tmp_path: Path
) -> None:
    (tmp_path / "macro.py").write_text("")
    unknown = model(TWO.partition("/>")[0] + "/>", definitions().replace('runtime="100 s"', ""))
    assert [job.walltime_s for job in planned(unknown, ALPHA).jobs] == [0.0]
    assert [job.walltime_s for job in planned(unknown, ALPHA, 'walltime = "2 hr"\n').jobs] == [7200.0]


def test_the_same_question_has_the_same_answer(calling: MakeModel) -> None:
    plans = [planned(calling(), LAPTOP, ALPHA, BETA, LINK).to_text() for _ in range(2)]
    assert plans[0] == plans[1]


def test_a_plan_over_sites_survives_its_json_form(calling: MakeModel) -> None:
    made = planned(calling(), ALPHA, BETA, LINK, wishes=SPLIT)
    assert plan_from_text(made.to_text()) == made


def test_a_plan_for_this_machine_alone_says_nothing_of_sites(calling: MakeModel) -> None:
    text = plan(calling()).to_text()
    for word in ("sites", "links", "relays", "paths", "routes", "stage", "expected", "walltime_s", "group"):
        assert f'"{word}"' not in text


# --- one site, and allocations ----------------------------------------------------------------------------------------


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """OR-Tools is not installed."""
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)


@pytest.mark.usefixtures("no_solver")
def test_one_site_needs_no_solver(calling: MakeModel) -> None:
    made = plan_over_sites(calling(), sites_from_text(ALPHA))
    assert {instance.site for instance in made.instances} == {"alpha"}
    with pytest.raises(NoPlan, match="too few cores on a node"):
        plan_over_sites(calling(macro='cores="9"'), sites_from_text(ALPHA))


def allocated(*nodes: AllocatedNode) -> SiteCatalogue:
    """The sites of a job with these nodes."""
    return allocation_catalogue(Allocation("slurm", "12", nodes, nodes[0].host))


def test_the_job_of_an_allocation_is_what_is_allocated_whatever_is_needed(calling: MakeModel) -> None:
    nodes = (AllocatedNode("n1", 4, 2**30), AllocatedNode("n2", 4, 2**30))
    (job,) = plan_over_sites(calling(), allocated(*nodes)).jobs
    assert (job.nodes, job.cores_per_node, job.memory_per_node_bytes) == (2, 4, 2**30)


@pytest.mark.parametrize(
    ("nodes", "attributes", "wanted"),
    [
        (2, {"macro": 'run:mpi="6"'}, NodesWanted(6, 1, 0, 0)),
        (2, {"macro": 'run:threads="3"'}, NodesWanted(1, 3, 0, 0)),
        (1, {"macro": 'run:threads="3"'}, NodesWanted(1, 3, 0, 0)),
        (1, {"macro": 'run:gpus="1"'}, NodesWanted(1, 1, 0, 1)),
    ],
)
def test_a_model_that_does_not_fit_says_which_nodes_would_do(
    calling: MakeModel, nodes: int, attributes: dict[str, str], wanted: NodesWanted
) -> None:
    small = [AllocatedNode(f"n{number}", 1) for number in range(nodes)]
    with pytest.raises(NoPlan) as refused:
        plan_over_sites(calling(**attributes), allocated(*small))
    assert refused.value.would_do == wanted
