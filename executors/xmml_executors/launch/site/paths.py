"""How a plan looks from a site that has none of our files: folders and programs of this machine become those there."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xmml_planner.programs import MPI_LAUNCHER
from xmml_planner.sites import Site

from xmml.late_dataclass import dataclass

#: In the folder of a run in an allocation: what otherwise lies in the folder of the run at its site.
ALLOCATION_FOLDER = ".allocation"


@dataclass(frozen=True)
class SitePaths:
    """Where things are, here and there.

    Attributes:
        model_folder: of the model here.
        run_folder: of the run here.
        there: the folder of the run at the site.
        python: the interpreter at the site.
        path: the search path of programs at the site.
        mpi: how MPI programs are started there, `{ranks}` stands for their number.
        planned_python: the interpreter as the plan's commands name it: maybe below `~`, which no shell reads there.
        home: the home directory at the site.
        model_there: the folder of the model at the site; empty: in that of the run.
    """

    model_folder: str
    run_folder: str
    there: str
    python: str
    path: str
    mpi: str = MPI_LAUNCHER
    planned_python: str = ""
    home: str = ""
    model_there: str = ""

    def text(self, value: str) -> str:
        """Return a word with the folders of this machine replaced by those at the site."""
        model_there = self.model_there or f"{self.there}/model"
        return replace_folders(value, {self.model_folder: model_there, self.run_folder: self.there})

    def file(self, path: Path | str) -> str:
        """Return a file of the run's folder as it is called at the site."""
        return self.text(str(path))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command of the plan as it is given at the site."""
        words = [self._word(word) for word in command]
        if os.path.basename(words[0]) == MPI_LAUNCHER and len(words) > 2 and words[1] in ("-n", "-np"):
            return [*mpi_command(self.mpi, words[2]), *words[3:]]
        return words

    def _word(self, word: str) -> str:
        if word == sys.executable:
            return self.python
        if word == self.planned_python:
            return below_home(word, self.home)
        return self.text(word)

    def env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return variables as they are set at the site. The search path is the site's own, its Python's tools first."""
        translated = {name: self.text(value) for name, value in env.items() if name != "PATH"}
        tools = os.path.dirname(self.python)
        return {**translated, "PATH": f"{tools}:{self.path}" if tools else self.path}


def site_folder(site: Site, home: str, run_id: str, run_folder: Path | str) -> str:
    """Return the folder of a run at a site.

    Args:
        home: the home directory there.
        run_folder: the folder of the run here, which the nodes of an allocation see, too.
    """
    if site.allocation is not None:
        return f"{run_folder}/{ALLOCATION_FOLDER}"
    return f"{below_home(site.work, home)}/runs/{run_id}"


def below_home(path: str, home: str) -> str:
    """Return a path at a site with the home directory written out."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def mpi_command(how: str, ranks: str) -> list[str]:
    """Return how an MPI program is started: `srun`, `mpirun`, or a command with `{ranks}`."""
    if "{ranks}" in how:
        return [word.replace("{ranks}", ranks) for word in how.split()]
    return [*how.split(), "-n", ranks]


def replace_folders(text: str, folders: Mapping[str, str]) -> str:
    """Replace the paths of folders wherever they stand in a text as a whole, alone or with something below them. What
    stands in their place is not looked at again: a folder there may be called like one here.

    Args:
        folders: the name there by the name here; of folders within each other, the innermost counts.
    """
    innermost = sorted(folders, key=len, reverse=True)
    names = "|".join(map(re.escape, innermost))
    return re.sub(rf"(?<![\w/.-])(?:{names})(?![\w.-])", lambda found: folders[found[0]], text)
