"""Reading very many objects that stay, without looking through them for garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the cyclic garbage collector from looking through a growing document, or plan, again and again.

    It has no cycles, but of a large one that took a third of the time. In the end everything that was made moves to the
    oldest generation unseen, as if it had been collected there.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
