"""The error of commands that look at runs; in a module of its own, so that other commands need not load theirs."""

from __future__ import annotations


class NotARun(Exception):
    """A folder that holds no run, or an instance that is not in it; the text says what to do."""
