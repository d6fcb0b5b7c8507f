"""xMML is installed at a site that reaches nothing outside."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from commands import BIN
from waiting import RUN_LIMIT_S

if TYPE_CHECKING:
    from testbed import Bed


def test_xmml_is_installed_at_a_site_without_internet(bed: Bed, tmp_path: Path) -> None:
    sites = tmp_path / "sites.toml"
    sites.write_text('[site.gamma]\nssh = "gamma"\ncores = 2\npython = "~/installed/bin/python"\n')
    command = [BIN / "xmml", "sites", "install", "gamma", "--sites", sites]
    if not Path(f"/usr/bin/python3.{sys.version_info.minor}").exists():  # the site has what this machine has
        sites.write_text(sites.read_text() + f'setup = ["export PATH={sys.base_prefix}/bin:$PATH"]\n')
    try:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        said = bed.laptop.run(command, env=environment, timeout_s=RUN_LIMIT_S).stdout
        assert "is installed (~/installed/bin/python)" in said
        program = "import xmml, xmml_native, sys; print(sys.prefix)"
        assert bed.site("gamma").run(f"~/installed/bin/python -c '{program}'").stdout == "/home/carol/installed\n"
    finally:
        bed.site("gamma").run("rm -rf installed .cache")
