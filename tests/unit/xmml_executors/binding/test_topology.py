"""The cores of made-up machines, and what a control group or a job leaves of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import describe
from xmml_executors.binding.topology import Core, cpu_limit, cpu_text, job_cpus, read_cores


def test_hardware_threads_of_a_core_are_one_core(tmp_path: Path) -> None:
    machine = describe(tmp_path, [(0, 2), (1, 3)])
    assert read_cores(machine, range(4)) == (Core((0, 2), (0, 2)), Core((1, 3), (1, 3)))


def test_cores_of_a_node_and_of_a_cache_stand_together(tmp_path: Path) -> None:
    cores = [(cpu,) for cpu in range(8)]
    machine = describe(tmp_path, cores, nodes={0: "0,2,4,6", 1: "1,3,5,7"}, caches=[(0, 4), (2, 6), (1, 3), (5, 7)])
    found = read_cores(machine, range(8))
    assert [core.cpus[0] for core in found] == [0, 4, 2, 6, 1, 3, 5, 7]
    assert [core.node for core in found] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_core_of_which_one_thread_is_ours_has_that_thread_only(tmp_path: Path) -> None:
    machine = describe(tmp_path, [(0, 4), (1, 5)])
    assert read_cores(machine, [1, 4]) == (Core((1,), (1, 5)), Core((4,), (0, 4)))


def test_a_cpu_that_is_switched_off_is_no_core(tmp_path: Path) -> None:
    machine = describe(tmp_path, [(0,), (1,), (3,)])
    (machine / "cpu/cpu2").mkdir()
    assert [core.cpus for core in read_cores(machine, [0, 1, 3])] == [(0,), (1,), (3,)]


def test_without_a_description_each_cpu_is_a_core(tmp_path: Path) -> None:
    assert read_cores(tmp_path / "none", [0, 5]) == (Core((0,), (0,)), Core((5,), (5,)))


def test_128_cores_are_read_by_their_nodes(tmp_path: Path) -> None:
    machine = describe(
        tmp_path, [(cpu, cpu + 128) for cpu in range(128)], nodes={0: "0-63,128-191", 1: "64-127,192-255"}
    )
    found = read_cores(machine, range(256))
    assert len(found) == 128
    assert [core.node for core in found] == [0] * 64 + [1] * 64


@pytest.mark.parametrize(("cpus", "text"), [([], ""), ([3], "3"), ([1, 0], "0-1"), ([0, 2, 3, 4, 9, 10], "0,2-4,9-10")])
def test_cpus_are_written_as_linux_writes_them(cpus: list[int], text: str) -> None:
    assert cpu_text(cpus) == text


@pytest.mark.parametrize(("text", "limit"), [("max 100000", None), ("100000 100000", 1.0), ("250000 100000", 2.5)])
def test_a_control_group_limits_the_time_of_cpus(tmp_path: Path, text: str, limit: float | None) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/cpu.max").write_text(text)
    (tmp_path / "a/b/cpu.max").write_text("max 100000")
    listed = tmp_path / "cgroup"
    listed.write_text("0::/a/b\n")
    assert cpu_limit(str(tmp_path), str(listed)) == limit


def test_a_control_group_of_version_1_limits_the_time_of_cpus(tmp_path: Path) -> None:
    group = tmp_path / "cpu,cpuacct/docker"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("50000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    listed = tmp_path / "cgroup"
    listed.write_text("5:memory:/docker\n4:cpu,cpuacct:/docker\n")
    assert cpu_limit(str(tmp_path), str(listed)) == 0.5


def test_a_container_sees_its_group_as_the_root(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000")
    listed = tmp_path / "cgroup"
    listed.write_text("0::/docker/4711\n")
    assert cpu_limit(str(tmp_path), str(listed)) == 1.5


def test_a_job_says_how_many_cpus_of_the_node_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PBS_JOBID", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "3")
    assert job_cpus() == 3


def test_outside_of_a_job_a_number_of_cpus_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PBS_JOBID", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("NCPUS", "3")
    assert job_cpus() is None
