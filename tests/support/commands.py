"""The installed commands, beside the interpreter that runs the tests: nobody needs to activate its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import RUN_LIMIT_S

BIN = Path(sys.executable).parent
XMML, XMML_RUN, MTO = (str(BIN / name) for name in ("xmml", "xmml-run", "mto"))
#: The search path with these commands first, for shells, Makefiles and workflows.
SEARCH_PATH = f"{BIN}{os.pathsep}{os.environ['PATH']}"
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--executor", "xmml")


def do(*words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Carry out one of these commands, to which nobody types anything, to its end.

    Args:
        settings: of `subprocess.run`.
    """
    command = [str(BIN / str(words[0])), *map(str, words[1:])]
    given = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": RUN_LIMIT_S}
    return subprocess.run(command, **{**given, **settings})
