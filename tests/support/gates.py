"""Statements by which programs in Python and a test tell each other something, through files."""

from __future__ import annotations

from pathlib import Path


def says(gate: Path) -> str:
    """A statement in one line that makes the file."""
    return f"open({str(gate)!r}, 'w').close()"


def awaits(gate: Path) -> str:
    """A statement in one line that ends as soon as the file is there."""
    return f"while not __import__('os').path.exists({str(gate)!r}): __import__('time').sleep(0.02)"


def sends_half_until(gate: Path, half: int) -> str:
    """A program in Python that sends so many messages from its port `o`, and the others when the file is there."""
    return f"""import xmml
with xmml.Instance() as me:
    while me.reuse():
        for t in me.steps():
            if t == {half}:
                {awaits(gate)}
            me.send("o", t)
"""
