"""Why a copy did not come to its end."""

from __future__ import annotations


class CopyFailed(Exception):
    """Nothing, or not everything, could be copied; the text says why and what to do."""


class CopyUsage(CopyFailed):
    """What was asked for cannot be."""
