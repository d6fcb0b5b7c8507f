"""What belongs to none of the runs alone that one process carries out."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from xmml_executors.launch.site.journal import JOURNAL, Journal
from xmml_executors.open_folder import OpenFolder
from xmml_executors.outcome import SiteError


class SharedFolder:
    """A folder of a process that carries out several runs, for what belongs to none of them alone.

    Attributes:
        name: of the folder, here and at sites.
        files: the folder.
    """

    def __init__(self, parent: Path) -> None:
        """Make it.

        Args:
            parent: in which it lies, beside those of other processes.

        Raises:
            SiteError: it cannot be written.
        """
        self.name = f"shared-{os.urandom(4).hex()}"
        path = parent.absolute() / self.name
        try:
            path.mkdir(parents=True)
            self.files = OpenFolder(path, follow=False)
        except OSError as error:
            raise SiteError(f"{path} cannot be made: {error.strerror}") from None
        self.journal = Journal(self.files)

    def close(self) -> None:
        """Remove the journal; logs stay."""
        self.journal.close()
        self.files.remove(JOURNAL)
        with contextlib.suppress(OSError):
            if self.files.is_in_place():
                self.files.path.rmdir()
        self.files.close()
