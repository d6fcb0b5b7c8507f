"""Machines that do not exist, described in a folder as Linux describes the one that does in `/sys/devices/system`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def describe(
    folder: Path,
    cores: Iterable[Sequence[int]],
    *,
    nodes: Mapping[int, str] | None = None,
    caches: Iterable[Sequence[int]] = (),
) -> Path:
    """Describe a machine in a folder, and return it.

    Args:
        cores: the CPUs of each physical core.
        nodes: the CPUs of each NUMA node, as Linux writes them.
        caches: the CPUs that share a cache.
    """
    for core in cores:
        for cpu in core:
            _write(folder / f"cpu/cpu{cpu}/topology/thread_siblings_list", _listed(core))
    for sharing in caches:
        for cpu in sharing:
            _write(folder / f"cpu/cpu{cpu}/cache/index3/shared_cpu_list", _listed(sharing))
    for node, cpus in (nodes or {}).items():
        _write(folder / f"node/node{node}/cpulist", cpus)
    return folder


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))
