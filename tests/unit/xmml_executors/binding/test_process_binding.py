"""What the processes of a plan are bound to on a made-up machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from machines import describe
from xmml_executors.binding import process_binding
from xmml_executors.binding.leases import CpuLeases
from xmml_executors.binding.process_binding import Binding, BindingError, bind, check_bindings
from xmml_executors.binding.topology import FOLDER_VARIABLE
from xmml_planner import Plan

BindPlan = Callable[..., Binding]
MakePlan = Callable[..., Plan]


@pytest.fixture(autouse=True)
def four_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A quiet machine of four cores on which we may use all, outside of jobs."""
    machine = describe(tmp_path / "devices", [(cpu,) for cpu in range(4)])
    monkeypatch.setenv(FOLDER_VARIABLE, str(machine))
    monkeypatch.setattr(process_binding, "own_cpus", lambda: (0, 1, 2, 3))
    monkeypatch.setattr(process_binding, "cpu_limit", lambda: None)
    monkeypatch.setattr(process_binding, "why_busy", lambda: "")
    for variable in ("SLURM_JOB_ID", "PBS_JOBID", "OMP_PLACES", "OMP_PROC_BIND"):
        monkeypatch.delenv(variable, raising=False)
    return machine


@pytest.fixture
def leases(four_cores: Path) -> CpuLeases:
    return CpuLeases(four_cores)


def changed(plan: Plan, **fields: object) -> Plan:
    """Return a plan whose instances have other fields."""
    return dataclasses.replace(
        plan,
        instances=tuple(dataclasses.replace(each, **fields) for each in plan.instances),  # type: ignore[arg-type]
    )


def test_coupled_instances_have_cores_of_their_own(make_plan: MakePlan, leases: CpuLeases) -> None:
    assert bind(make_plan("a", "b", couplings=[("a", "b")]), (), leases).cpus == {"a": (0, 2), "b": (1, 3)}


def test_a_single_process_is_not_bound(make_plan: MakePlan, leases: CpuLeases) -> None:
    assert bind(make_plan("a"), (), leases) == Binding()


def test_a_process_that_a_person_starts_is_not_bound(make_plan: MakePlan, leases: CpuLeases) -> None:
    assert bind(make_plan("a", "b"), ["b"], leases) == Binding()


def test_more_processes_than_cores_are_not_bound(make_plan: MakePlan, leases: CpuLeases) -> None:
    binding = bind(make_plan(*"abcde"), (), leases)
    assert (binding.cpus, binding.reason) == ({}, "5 processes need 5 cores, and there are 4")


def test_instances_in_one_process_need_a_core_each(make_plan: MakePlan, leases: CpuLeases) -> None:
    plan = make_plan("a", *"bcde")
    shared = tuple(dataclasses.replace(each, process="hosts/1") for each in plan.instances[1:])
    binding = bind(dataclasses.replace(plan, instances=(plan.instances[0], *shared)), (), leases)
    assert binding.reason == "2 processes need 5 cores, and there are 4"


def test_the_process_that_instances_share_is_bound(make_plan: MakePlan, leases: CpuLeases) -> None:
    plan = make_plan(*"abc")
    shared = tuple(dataclasses.replace(each, process="hosts/1") for each in plan.instances[1:])
    binding = bind(dataclasses.replace(plan, instances=(plan.instances[0], *shared)), (), leases)
    assert binding.cpus == {"a": (2, 3), "hosts/1": (0, 1)}


def test_a_busy_machine_is_not_bound_to(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_binding, "why_busy", lambda: "all of it")
    assert bind(make_plan("a", "b"), (), leases).reason == "this machine is busy: all of it"


def test_who_asks_for_a_core_is_bound_on_a_busy_machine(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_binding, "why_busy", lambda: "all of it")
    binding = bind(changed(make_plan("a", "b"), bind="core"), (), leases)
    assert binding.cpus == {"a": (0,), "b": (1,)}


def test_a_container_with_the_time_of_one_cpu_binds_nothing(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_binding, "cpu_limit", lambda: 1.0)
    reason = "2 processes need 2 cores, and the control group of this run has the time of 1"
    assert bind(make_plan("a", "b"), (), leases).reason == reason


def test_a_job_that_does_not_know_its_cpus_binds_nothing(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "2")
    reason = "the job has 2 CPUs of this node, and the batch system does not say which"
    assert bind(make_plan("a", "b"), (), leases).reason == reason


def test_cores_of_a_job_are_bound_also_if_its_node_is_busy(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_binding, "why_busy", lambda: "all of it")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "4")
    binding = bind(make_plan("a", "b"), (), leases)
    assert binding.cpus
    assert not binding.is_watched


def test_leased_cpus_are_left_to_the_run_that_has_them(
    make_plan: MakePlan, leases: CpuLeases, four_cores: Path
) -> None:
    other = CpuLeases(four_cores)
    with other.choosing([0, 2]):
        pass
    assert bind(make_plan("a", "b"), (), leases).cpus == {"a": (1,), "b": (3,)}
    binding = bind(make_plan(*"abc"), (), CpuLeases(four_cores))
    assert binding.reason == f"3 processes need 3 cores; other runs have leased CPUs 0-3 (process {os.getpid()})"
    other.release()
    leases.release()


def test_a_run_that_is_not_bound_holds_no_lease(make_plan: MakePlan, leases: CpuLeases, four_cores: Path) -> None:
    other = CpuLeases(four_cores)
    with other.choosing([0, 1, 2]):
        pass
    assert bind(make_plan("a", "b"), (), leases).cpus == {}
    with other.choosing([3]) as free:
        assert free == {3}
    other.release()


def test_hardware_threads_are_used_when_there_are_too_few_cores(
    make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = describe(tmp_path / "threads", [(0, 2), (1, 3)])
    monkeypatch.setenv(FOLDER_VARIABLE, str(machine))
    leases = CpuLeases(machine)
    assert bind(changed(make_plan(*"abc"), bind="core"), (), leases).cpus == {"a": (0,), "b": (2,), "c": (1,)}
    leases.release()


def test_a_core_is_leased_with_the_threads_that_are_not_ours(
    make_plan: MakePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = describe(tmp_path / "threads", [(0, 2), (1, 3)])
    monkeypatch.setenv(FOLDER_VARIABLE, str(machine))
    monkeypatch.setattr(process_binding, "own_cpus", lambda: (0, 1))
    leases, other = CpuLeases(machine), CpuLeases(machine)
    assert bind(make_plan("a", "b"), (), leases).cpus == {"a": (0,), "b": (1,)}
    with other.choosing([2, 3]) as free:
        assert not free
    leases.release()


def test_threads_of_a_bound_process_stay_on_its_cores(
    make_plan: MakePlan, leases: CpuLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    binding = bind(make_plan("a", "b"), (), leases)
    assert binding.variables("a") == {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"}
    monkeypatch.setenv("OMP_PROC_BIND", "spread")
    assert binding.variables("a") == {"OMP_PLACES": "cores"}
    assert Binding().variables("a") == {}


MPIRUN = ("/usr/bin/mpirun", "-n", "2", "p")


def with_cores(plan: Plan, **cores: int) -> Plan:
    """Return a plan of which some instances need other numbers of cores."""
    instances = tuple(dataclasses.replace(each, cores=cores.get(each.name, each.cores)) for each in plan.instances)
    return dataclasses.replace(plan, instances=instances)


def test_mpirun_binds_its_ranks_to_the_first_cores_which_others_keep_off(
    make_plan: MakePlan, leases: CpuLeases, four_cores: Path
) -> None:
    binding = bind(with_cores(make_plan("a", "b", b=MPIRUN), b=2), (), leases)
    assert binding.cpus == {"a": (2, 3)}
    assert binding.variables("b") == {}
    with CpuLeases(four_cores).choosing(range(4)) as free:
        assert not free


def test_an_mpi_program_alone_is_left_to_mpirun(make_plan: MakePlan, leases: CpuLeases) -> None:
    assert bind(with_cores(make_plan("a", a=MPIRUN), a=2), (), leases) == Binding()


def test_the_ranks_of_an_mpi_program_that_is_bound_are_left_to_the_kernel_on_its_cores(
    make_plan: MakePlan, leases: CpuLeases
) -> None:
    binding = bind(changed(with_cores(make_plan("a", "b", a=MPIRUN), a=2), bind="core"), (), leases)
    assert binding.cpus == {"a": (0, 1), "b": (2,)}
    assert binding.variables("a")["OMPI_MCA_hwloc_base_binding_policy"] == "none"
    assert "OMPI_MCA_hwloc_base_binding_policy" not in binding.variables("b")


@pytest.mark.parametrize(
    ("names", "wanted", "says"),
    [
        ("a", "3-5", "CPUs 4-5 are not there, or not for this process, which may use CPUs 0-3"),
        ("ab", "2", "2 processes need 2 cores, and there is 1: CPU 2"),
        ("abcde", "core", "5 processes need 5 cores, and there are 4: CPUs 0-3"),
    ],
)
def test_what_this_machine_cannot_give_is_refused(make_plan: MakePlan, names: str, wanted: str, says: str) -> None:
    with pytest.raises(BindingError) as refused:
        check_bindings(changed(make_plan(*names), bind=wanted))
    assert str(refused.value) == says


@pytest.mark.parametrize("wanted", ["", "none", "numa", "0-3", "core"])
def test_what_this_machine_can_give_is_not_refused(make_plan: MakePlan, wanted: str) -> None:
    check_bindings(changed(make_plan(*"abcd"), bind=wanted))
