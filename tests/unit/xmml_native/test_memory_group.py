"""What a control group says about memory, as its files lie in version 1 and 2; `tests/faults` has real groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from xmml_native.machine import MemoryGroup


class Group:
    """The files of a group `jobs/mine`, of either version."""

    def __init__(self, folder: Path, version: int) -> None:
        self.version = version
        self.mounted = folder / "mounted"
        self.listed = folder / "listed"
        self.listed.write_text("9:name=systemd:/jobs\n" + ("0::" if version == 2 else "4:cpu,memory:") + "/jobs/mine\n")
        self.root = self.mounted if version == 2 else self.mounted / "memory"
        self.own = self.root / "jobs/mine"
        self.own.mkdir(parents=True)
        self.limit(self.own, None)
        self.kills(self.own, 3)

    def limit(self, folder: Path, limit_bytes: int | None) -> None:
        if self.version == 2:
            (folder / "memory.max").write_text(f"{limit_bytes or 'max'}\n")
        else:
            (folder / "memory.stat").write_text(f"cache 0\nhierarchical_memory_limit {limit_bytes or 2**63 - 4096}\n")

    def kills(self, folder: Path, count: int) -> None:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        (folder / name).write_text(f"oom 9\noom_kill {count}\n")

    def read(self) -> MemoryGroup:
        return MemoryGroup(str(self.mounted), str(self.listed))


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def group(request: pytest.FixtureRequest, tmp_path: Path) -> Group:
    return Group(tmp_path, request.param)


def test_each_process_that_was_killed_is_told_once(group: Group) -> None:
    group.limit(group.own, 300 << 20)
    memory = group.read()
    assert not memory.ran_out()
    group.kills(group.own, 5)
    for _ in range(2):
        assert "control group, /jobs/mine, needed more than the 300 MiB" in memory.ran_out()
    assert not memory.ran_out()


def test_what_failed_otherwise_takes_the_reason_from_none_that_was_killed(group: Group) -> None:
    group.limit(group.own, 300 << 20)
    memory = group.read()
    assert not memory.ran_out_beside()
    group.kills(group.own, 4)
    beside = memory.ran_out_beside()
    assert beside.startswith("another process, perhaps a child of it, was killed meanwhile: ")
    assert beside.endswith(memory.ran_out())
    assert not memory.ran_out_beside()
    assert not memory.ran_out()
    group.kills(group.own, 5)
    assert memory.ran_out()
    assert not memory.ran_out_beside(), "who was killed is known"


def test_without_a_limit_it_is_the_machine_that_has_no_memory(group: Group) -> None:
    memory = group.read()
    group.kills(group.own, 4)
    assert memory.limit() is None
    assert memory.ran_out() == "this machine had no memory left"


def test_the_least_limit_of_the_groups_around_it_holds(tmp_path: Path) -> None:
    group = Group(tmp_path, 2)
    group.limit(group.own, 5 << 30)
    group.limit(group.own.parent, 1 << 30)
    assert group.read().limit() == 1 << 30


def test_in_a_container_the_root_is_the_group_whatever_its_name_is_outside(group: Group) -> None:
    group.kills(group.root, 0)
    group.limit(group.root, 64 << 20)
    group.listed.write_text(group.listed.read_text().replace("/jobs/mine", "/docker/0123"))
    memory = group.read()
    group.kills(group.root, 1)
    assert "64 MiB" in memory.ran_out()


def test_where_there_are_no_groups_nothing_is_said(tmp_path: Path) -> None:
    memory = MemoryGroup(str(tmp_path), str(tmp_path / "none"))
    assert memory.limit() is None
    assert not memory.ran_out()
