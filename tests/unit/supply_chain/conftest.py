"""Lets the tests of this folder import the scripts of supply-chain/ by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "supply-chain"))
