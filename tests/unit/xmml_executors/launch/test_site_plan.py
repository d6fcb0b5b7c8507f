"""What the plan says of the links between sites reaches the relays that a run starts."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import MTO
from site_here import site_at
from waiting import LIMIT_S, until
from xmml_executors.launch.jobs.site_plan import reached_directly, relay_links
from xmml_executors.launch.relays.local_relay import LocalRelay
from xmml_executors.launch.relays.remote_relay import RemoteRelay
from xmml_executors.open_folder import OpenFolder
from xmml_native.mto import relay_key
from xmml_planner import Plan
from xmml_planner.execution_plan import Job, PlannedPath
from xmml_planner.sites import Site

RUN, KEY = "canal", relay_key(b"the secret of canal")

HOME = Site("laptop", cores=4)
ALPHA = Site("alpha", ssh="alpha", scheduler="slurm")
GPUS = Site("alpha-gpu", ssh="alpha", scheduler="slurm", like="alpha")
BETA = Site("beta", ssh="beta", scheduler="slurm")


def path(
    dialler: str, taker: str, address: str | None = None, *, streams: int | None = None, encrypt: bool = True
) -> PlannedPath:
    return PlannedPath((dialler, taker), address, streams, encrypt, 0.01, 125e6, 2_500_000)


def plan_of(*paths: PlannedPath) -> Plan:
    nothing: tuple[Any, ...] = ()
    sites = (HOME, ALPHA, GPUS, BETA)
    return Plan("m", "/m/model.xml", "/m", nothing, nothing, nothing, nothing, sites=sites, paths=paths)


@pytest.mark.parametrize(
    ("places", "methods", "reached"),
    [
        (("alpha", "alpha-gpu"), ("tcp", "relay"), {"job of b"}),
        (("alpha", "alpha"), (), {"job of b"}),
        (("alpha", "alpha-gpu"), ("relay",), set()),
        (("alpha", "beta"), ("tcp", "relay"), set()),
        (("laptop", "alpha"), ("tcp", "relay"), set()),
    ],
    ids=["of two parts", "of one site", "by relay as the model says", "of two clusters", "of this machine"],
)
def test_jobs_of_a_cluster_reach_each_other_directly(
    make_plan: Callable[..., Plan], places: tuple[str, str], methods: tuple[str, ...], reached: set[str]
) -> None:
    plan = make_plan("a", "b", couplings=[("a", "b")])
    jobs = [Job(f"job of {name}", site, (name,)) for name, site in zip("ab", places, strict=True)]
    conduits = [replace(each, methods=methods) for each in plan.conduits]
    made = replace(plan, sites=(HOME, ALPHA, GPUS, BETA), jobs=tuple(jobs), conduits=tuple(conduits))
    assert reached_directly(made) == reached


def test_the_ranks_of_a_program_are_reached_where_it_is(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan("a", "b", "b@1", couplings=[("a", "b@1")])
    a, b, rank = plan.instances
    jobs = (Job("one", "alpha", ("a",)), Job("other", "alpha-gpu", ("b",)))
    instances = (a, b, replace(rank, rank_of="b"))
    assert reached_directly(replace(plan, sites=(ALPHA, GPUS), jobs=jobs, instances=instances)) == {"other"}


FIGURES = "latency_s=0.01,bandwidth_b_s=125000000.0"


def test_each_link_is_told_to_the_relay_that_dials_it() -> None:
    plan = plan_of(
        path("beta", "alpha", "login.alpha:40001", streams=8, encrypt=False), path("laptop", "beta", streams=2)
    )
    assert relay_links(plan, "beta").words("127.0.0.1:7") == [
        *("--link", f"127.0.0.1:7,streams=2,encrypt=true,{FIGURES}"),
        *("--link", f"login.alpha:40001,streams=8,encrypt=false,{FIGURES}"),
    ]
    # That of alpha is dialled in clear, and dials home as it does where nothing is known: encrypted.
    assert relay_links(plan, "alpha").words("127.0.0.1:7") == ["--link", "127.0.0.1:7,encrypt=true"]
    assert relay_links(plan, "alpha").clear_from == {"beta"}
    assert not relay_links(plan, "beta").clear_from
    assert not relay_links(plan, "laptop").clear_from


@pytest.mark.parametrize("ends", [("laptop", "alpha"), ("alpha", "laptop")])
def test_the_relay_of_the_launching_machine_takes_clear_links_from_sites_of_the_plan(ends: tuple[str, str]) -> None:
    plan = plan_of(path(*ends, "login.alpha:40001", encrypt=False))
    assert relay_links(plan, "laptop").clear_from == {"alpha"}
    # Whoever the plan has dial: what dials is the other relay, and only through ssh.
    assert relay_links(plan, "alpha").words("127.0.0.1:7") == ["--link", f"127.0.0.1:7,encrypt=false,{FIGURES}"]


def test_parts_of_a_cluster_share_its_relay_and_need_no_link_among_themselves() -> None:
    address = "login.alpha:40001"
    within = path("alpha", "alpha-gpu", encrypt=False)
    plan = plan_of(within, path("beta", "alpha", address), path("beta", "alpha-gpu", address))
    assert relay_links(plan, "beta").words("h:1")[2:] == ["--link", f"{address},encrypt=true,{FIGURES}"]
    assert not relay_links(plan, "alpha").clear_from
    assert (
        relay_links(plan_of(path("alpha-gpu", "beta", "b:1")), "alpha").words("h:1")[3] == f"b:1,encrypt=true,{FIGURES}"
    )


@pytest.mark.parametrize(("streams", "encrypt"), [(3, False), (5, True)])
def test_links_stand_as_the_plan_says(tmp_path: Path, streams: int, encrypt: bool) -> None:
    plan = plan_of(path("laptop", "alpha", streams=streams, encrypt=encrypt))
    here = LocalRelay(
        f"t{os.getpid()}-h",
        RUN,
        KEY,
        OpenFolder(tmp_path),
        "here.log",
        is_open=False,
        clear_from=relay_links(plan, "laptop").clear_from,
    )

    async def statuses() -> list[dict[str, Any]]:
        site = site_at(tmp_path, "alpha")
        options = relay_links(plan, "alpha").words(f"127.0.0.1:{here.port}")
        there = RemoteRelay(site, f"t{os.getpid()}-t", options, RUN, KEY, here.certificates)

        def links() -> list[dict[str, Any]]:
            return [link_of(here.name), link_of(there.name)]

        try:
            assert await there.start()
            await until(
                lambda: all(link.get("state") == "up" and link["streams"] == streams for link in links()),
                lambda: f"the links do not stand: {links()}",
            )
            return links()
        finally:
            await site.transport.close()

    try:
        assert [link["encrypted"] for link in asyncio.run(statuses())] == [encrypt, encrypt]
    finally:
        here.close()


def status_of(site: str) -> dict[str, Any]:
    done = subprocess.run([MTO, "status", "--json", "--site", site], capture_output=True, check=True, timeout=LIMIT_S)
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def link_of(site: str) -> dict[str, Any]:
    """The one link of a relay, as it says; none yet: nothing."""
    links: list[dict[str, Any]] = status_of(site)["links"]
    return links[0] if links else {}


def stranger_to(port: int, *, encrypt: bool = True) -> subprocess.Popen[bytes]:
    """A relay that knows the run's relay key and dials another."""
    link = f"127.0.0.1:{port},encrypt={'true' if encrypt else 'false'}"
    words = ["--site", f"t{os.getpid()}-s", "--listen", "127.0.0.1:0", "--link", link, "--stdin"]
    stranger = subprocess.Popen([MTO, *words], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert stranger.stdin is not None
    order = {"command": "add-run", "run": RUN, "relay_key": KEY}
    stranger.stdin.write(json.dumps(order).encode() + b"\n")
    stranger.stdin.flush()
    return stranger


def carry_out(steps: Coroutine[Any, Any, None], here: LocalRelay, strangers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Carry out the steps of a test, and end the relays however that ends."""
    try:
        asyncio.run(steps)
    finally:
        here.close()
        for stranger in strangers:
            stranger.kill()
            stranger.communicate()


def test_a_relay_that_takes_links_in_clear_takes_them_from_those_of_the_plan_only(tmp_path: Path) -> None:
    plan = plan_of(path("laptop", "alpha", encrypt=False))
    clear_from = relay_links(plan, "laptop").clear_from
    log = tmp_path / "here.log"
    here = LocalRelay(
        f"t{os.getpid()}-h", RUN, KEY, OpenFolder(tmp_path), log.name, is_open=False, clear_from=clear_from
    )
    strangers: list[subprocess.Popen[bytes]] = []

    async def all_of_it() -> None:
        site = site_at(tmp_path, "alpha")
        options = relay_links(plan, "alpha").words(f"127.0.0.1:{here.port}")
        there = RemoteRelay(site, f"t{os.getpid()}-t", options, RUN, KEY, here.certificates)
        try:
            assert await there.start()
            await until(lambda: link_of(here.name).get("site") == there.name, "the relays are not linked")
            assert not link_of(here.name)["encrypted"]
            strangers.append(stranger_to(here.port, encrypt=False))
            await until(lambda: status_of(here.name)["refused"] > 2, "the stranger is not refused")
            assert [link["site"] for link in status_of(here.name)["links"]] == [there.name]
            refusals = [line for line in log.read_text().splitlines() if "no link in clear is taken" in line]
            assert len(refusals) == 1, refusals
        finally:
            await site.transport.close()

    carry_out(all_of_it(), here, strangers)


def test_relays_of_a_run_trust_each_other_only_also_after_they_were_started_again(tmp_path: Path) -> None:
    here = LocalRelay(f"t{os.getpid()}-h", RUN, KEY, OpenFolder(tmp_path), "here.log", is_open=False)
    strangers: list[subprocess.Popen[bytes]] = []

    async def all_of_it() -> None:
        site = site_at(tmp_path, "alpha")
        options = ["--link", f"127.0.0.1:{here.port}"]
        there = RemoteRelay(site, f"t{os.getpid()}-t", options, RUN, KEY, here.certificates)

        def are_linked() -> bool:
            return [link_of(here.name).get("site"), link_of(there.name).get("site")] == [there.name, here.name]

        try:
            assert await there.start()
            await until(are_linked, "the relays are not linked")
            strangers.append(stranger_to(here.port))
            await until(lambda: status_of(here.name)["refused"] > 2, "the stranger is not refused")
            assert [link["site"] for link in status_of(here.name)["links"]] == [there.name]
            assert are_linked()
            # Started again, each shows another certificate.
            for again in ("there", "here"):
                before = status_of(here.name)["certificate"], status_of(there.name)["certificate"]
                if again == "there":
                    await there.end()
                    assert await there.start_on(there.port)
                else:
                    here.close()
                    await here.start_again()
                after = status_of(here.name)["certificate"], status_of(there.name)["certificate"]
                assert before != after
                await until(are_linked, "the relays are not linked")
            refused = status_of(here.name)["refused"]
            await until(lambda: status_of(here.name)["refused"] > refused, "the stranger is not refused again")
            assert [link["site"] for link in status_of(here.name)["links"]] == [there.name]
        finally:
            await site.transport.close()

    carry_out(all_of_it(), here, strangers)
