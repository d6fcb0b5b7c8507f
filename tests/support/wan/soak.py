"""The long forms of tests (`make soak`): faults as long and as many as in real life, strict times, a quiet machine."""

from __future__ import annotations

import os

import pytest

LONG = "XMML_SOAK" in os.environ


def long_form(why: str) -> pytest.MarkDecorator:
    """Return a mark that runs a test in its long form only.

    Args:
        why: what makes it long.
    """
    return pytest.mark.skipif(not LONG, reason=f"{why}: XMML_SOAK=1")
