"""`python -m xmml_run`: the same as the command `xmml-run`."""

from __future__ import annotations

import sys

from xmml_run.main import xmml_run

if __name__ == "__main__":
    sys.exit(xmml_run())
