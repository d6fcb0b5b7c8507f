"""What the machine says of processes, and of the memory that they may have."""

from __future__ import annotations

from xmml_native._native import MemoryGroup, descendants, start_of

__all__ = ["MemoryGroup", "descendants", "start_of"]
