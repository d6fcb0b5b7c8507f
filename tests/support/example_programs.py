"""The example programs of the crates: `cargo test` has built them; whoever runs pytest alone has them built here."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def example(name: str) -> Path:
    """The program of this name, built if it is older than a source of the library.

    Raises:
        RuntimeError: the compiler has errors.
    """
    program = ROOT / "target" / "release" / "examples" / name
    crates = [ROOT / "native" / crate for crate in ("wire", "path", "core")]
    sources = [*(source for crate in crates for source in crate.rglob("*.rs")), ROOT / "Cargo.lock"]
    if not program.exists() or program.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        # Of the whole workspace, as `cargo test` does it: another choice of packages would compile everything again.
        words = ["cargo", "build", "--release", "--locked", "--workspace", "--example", name]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}\n{done.stderr[-3000:]}")
        program.touch()  # cargo leaves it alone if the source that changed is of another program
    return program
