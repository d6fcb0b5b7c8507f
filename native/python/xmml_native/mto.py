"""The program `mto`: relays of sites, and what starts, watches and ends the programs of a run on a machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from xmml_native._native import relay_key

__all__ = ["PROGRAM", "main", "relay_key"]

#: The program. It needs no shared library, so that a copy of it runs on other machines of the same kind.
PROGRAM = Path(__file__).resolve().parent / "bin" / "mto"


def main() -> None:
    """Become the program."""
    try:
        os.execv(PROGRAM, ["mto", *sys.argv[1:]])
    except OSError as error:
        raise SystemExit(f"{PROGRAM} cannot be executed: {error.strerror}; install xMML again") from None
