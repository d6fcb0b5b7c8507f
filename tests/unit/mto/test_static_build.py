"""`make mto-static`: the relay that needs no library, for login nodes with another system.

It compiles for some minutes, so only the long form (XMML_SOAK=1) makes it; that nothing stands in its way is looked at
each time.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from coupled import Program, Run
from wan.soak import long_form

ROOT = Path(__file__).resolve().parents[3]
TARGET = f"{platform.machine()}-unknown-linux-musl"
#: Crates whose library in C they bring along as source, to be compiled into the program.
BRING_THEIR_SOURCE = {"ring", "zstd-sys"}

SENDER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            me.send("out", "by a relay")
"""
RECEIVER = """
import xmml
with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            print(me.receive("in").data)
"""


def cargo(*words: str) -> str:
    done = subprocess.run(["cargo", *words, "--locked"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_nothing_that_the_relay_is_made_of_links_a_library_of_the_system() -> None:
    tree = cargo("tree", "--package", "mto", "--target", TARGET, "--edges", "normal", "--prefix", "none")
    parts = {line.split()[0] for line in tree.splitlines() if line}
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", TARGET))
    links = {package["name"] for package in metadata["packages"] if package["links"]}
    assert "xmml-core" in parts
    assert parts & links == BRING_THEIR_SOURCE


def test_make_builds_it_for_a_target_without_libraries_of_the_system() -> None:
    done = subprocess.run(["make", "--dry-run", "mto-static"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"cargo build --release --locked --package mto --target {TARGET}" in done.stdout
    cfg = subprocess.run(["rustc", "--print", "cfg", "--target", TARGET], capture_output=True, text=True, check=True)
    assert 'target_feature="crt-static"' in cfg.stdout


@long_form("compiles for minutes")
@pytest.mark.timeout(3600)
def test_the_relay_without_libraries_relays(tmp_path: Path) -> None:
    for tool, package in (("musl-gcc", "musl-tools"), ("readelf", "binutils")):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}: apt-get install {package}")
    words = ["rustc", "--print", "target-libdir", "--target", TARGET]
    if not Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()).is_dir():
        pytest.skip(f"needs Rust's target {TARGET}: rustup target add {TARGET}")
    subprocess.run(["make", "mto-static"], cwd=ROOT, check=True)
    mto = ROOT / "build" / "mto"
    said = subprocess.run(["readelf", "-ld", mto], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in said, "it wants a loader"
    assert "NEEDED" not in said, "it wants a library"
    programs = {}
    for name, ports, text in (("a", {"out": "Oi"}, SENDER), ("b", {"in": "S"}, RECEIVER)):
        (tmp_path / f"{name}.py").write_text(text)
        programs[name] = Program(ports, [sys.executable, tmp_path / f"{name}.py"])
    run = Run(tmp_path, programs, "a.out -> b.in")
    for conduit in run.conduits:
        conduit["methods"] = ["relay"]
    secret_file = tmp_path / "secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text(run.secret.hex())
    site = f"static-{os.getpid()}"  # which nobody else has a relay of
    words = [mto, "--site", site, "--listen", "127.0.0.1:0", "--run", f"test-run={secret_file}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None
            listens = json.loads(relay.stdout.readline())["listen"][0]
            ended = run.carry_out(env={"XMML_RELAY": f"{listens}/{site}"})
        finally:
            relay.kill()
    assert (ended["a"].status, ended["b"].status) == (0, 0), (ended["a"].errors, ended["b"].errors)
    assert ended["b"].output == "by a relay\n"
