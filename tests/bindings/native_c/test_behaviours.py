"""The C and the C++ API: each behaviour of values, an instance by itself, bound ports, spans; as it is, and watched."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest
from compiled import SANITIZED, behaviours, compiled, run

HERE = Path(__file__).parent
C = tuple(HERE / name for name in ("values.c", "alone.c", "ports.c"))
CPP = tuple(HERE.parent / "native_cpp" / name for name in ("values.cpp", "alone.cpp", "ports.cpp", "spans.cpp"))


def options(source: Path) -> list[str]:
    return ["-std=c++20"] if source.stem == "spans" else []


@cache
def plain(source: Path) -> Path:
    return compiled(source, *options(source))


def each(sources: tuple[Path, ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("source", sources, ids=lambda source: source.name)


@pytest.mark.parametrize(
    ("source", "behaviour"),
    [pytest.param(source, name, id=f"{source.name}-{name}") for source in C + CPP for name in behaviours(source)],
)
def test_every_behaviour_holds(source: Path, behaviour: str) -> None:
    assert "held" in run(plain(source), behaviour)


@each(C + CPP)
def test_no_behaviour_leaks_or_touches_what_it_must_not(source: Path) -> None:
    program = compiled(source, *options(source), *SANITIZED)
    for behaviour in behaviours(source):
        run(program, behaviour)


@each(C)
def test_the_static_library_behaves_alike(source: Path) -> None:
    program = compiled(source, static=True)
    assert "libxmml" not in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for behaviour in behaviours(source):
        run(program, behaviour)
