"""The program `mto` needs no library, so that a copy of it runs at sites with another system."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from needs import needs
from xmml_native import mto


@needs("readelf")
def test_it_wants_neither_a_loader_nor_a_library() -> None:
    said = subprocess.run(["readelf", "-ld", mto.PROGRAM], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in said, "it wants a loader"
    assert "NEEDED" not in said, "it wants a library"


@needs("strace")
def test_it_resolves_names_without_loading_anything_of_the_machine_that_it_runs_on(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--site", "a", "--listen", f"localhost:{port}"]
        command = ["strace", "-f", "-o", trace, "-e", "trace=openat", mto.PROGRAM, *words]
        done = subprocess.run(command, capture_output=True, text=True)
    assert "in use" in done.stderr, "it has not resolved the name"
    opened = trace.read_text()
    assert "/etc/hosts" in opened
    assert ".so" not in opened
