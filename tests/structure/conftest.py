"""Lets the tests of this folder import its modules, and those of supply-chain/, by name."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "supply-chain")]
