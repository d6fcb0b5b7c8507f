"""How messages travel between nodes of one cluster: docs/methods.md, "Where instances listen"."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from testbed.pair import Pair, sites

if TYPE_CHECKING:
    from testbed import Bed

XMML = Path(sys.executable).with_name("xmml")


@pytest.mark.parametrize(
    ("listen", "method"),
    [("", "tcp"), ('listen = "eth0"\n', "tcp"), ('listen = "loopback"\n', "relay")],
)
def test_messages_between_jobs_of_a_cluster_go_directly_unless_instances_listen_on_the_loopback_device_only(
    firewalled: Bed, tmp_path: Path, listen: str, method: str
) -> None:
    pair = Pair(firewalled, tmp_path / "pair")
    text = sites(firewalled, alpha=f'options = ["--nodelist=alpha1"]\n{listen}')
    text += '[site.other]\nlike = "alpha"\noptions = ["--nodelist=alpha2"]\n'
    run = pair.start(text, {"left": "alpha", "right": "other"}, is_direct=False)
    assert run.wait() == 0, run.output
    told = firewalled.laptop.run([XMML, "status", "run", "--json"], cwd=pair.folder).stdout
    conduits = json.loads(told)["conduits"]
    assert [conduit["method"] for conduit in conduits] == [method, method], conduits
    assert ("goes through a relay, which is slower than planned" in run.output) == (method == "relay"), run.output
