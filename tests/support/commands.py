"""The installed commands, beside the interpreter that runs the tests: nobody needs to activate its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
XMML, XMML_RUN, MTO = (str(BIN / name) for name in ("xmml", "xmml-run", "mto"))
#: The search path with these commands first, for shells, Makefiles and workflows.
SEARCH_PATH = f"{BIN}{os.pathsep}{os.environ['PATH']}"
SNAKEMAKE = (sys.executable, "-m", "snakemake", "--executor", "xmml")
