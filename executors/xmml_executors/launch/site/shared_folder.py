"""What belongs to none of the runs alone that one process carries out."""

from __future__ import annotations

import contextlib
import os
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

    def close(self) -> None:
        """Remove the journal; logs stay."""
        self.journal.close()
        self.journal.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()
