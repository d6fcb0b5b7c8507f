"""What belongs to none of the runs alone that one process carries out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from xmml_executors.launch.site.journal import Journal
from xmml_executors.outcome import SiteError


class SharedFolder:
    """A folder of a process that carries out several runs, for what belongs to none of them alone.

    Attributes:
        name: of the folder, here and at sites.
    """

    def __init__(self, parent: Path) -> None:
        """Make it.

        Args:
            parent: in which it lies, beside those of other processes.

        Raises:
            SiteError: it cannot be written.
        """
        self.name = f"shared-{os.urandom(4).hex()}"
        self.path = parent.absolute() / self.name
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SiteError(f"{self.path} cannot be made: {error.strerror}") from None
        self.journal = Journal(self.path)

    def close(self, left: Sequence[str]) -> None:
        """Remove the journal, if nothing is left at sites; logs stay.

        Args:
            left: why something may be left.
        """
        self.journal.close()
        if left:
            why = "; ".join(left)
            print(f"xmml-run: sites could not be left: {why}; again: xmml cancel {self.path}", file=sys.stderr)
            return
        self.journal.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()
