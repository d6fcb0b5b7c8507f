"""What sites.toml says of the link between two clusters is how their relays are linked in a run."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.pair import LIMIT_S, Pair
from waiting import wait_until

if TYPE_CHECKING:
    from testbed import Bed

CLUSTERS = {"left": "alpha", "right": "beta"}
LINK = '[[link]]\nbetween = ["alpha", "beta"]\nlatency = "5 ms"\nbandwidth = "100 Mbit/s"\n'
STREAMS = 3
#: The status of the relay that a run has started at a site: of this user there is no other one.
STATUS = """\
control=$(grep -o -m 1 "@xmml-mto-$(id -u)-.*" /proc/net/unix)
/opt/xmml/bin/mto status --json --control "$control"
"""


def links_at(bed: Bed, site: str) -> dict[str, dict[str, Any]]:
    """The links of a site's relay that stand, by the sites that they lead to."""
    links = json.loads(bed.site(site).run(STATUS).stdout)["links"]
    return {link["site"].partition("-")[0]: link for link in links if link["state"] == "up"}


def with_streams(links: dict[str, dict[str, Any]], other: str) -> dict[str, dict[str, Any]]:
    """The links, if that to another site has all of its streams."""
    return links if links.get(other, {}).get("streams") == STREAMS else {}


#: What a relay says of the stranger. While a run begins or ends its own relays may be turned away, for other reasons.
OF_A_STRANGER = 'reason="a frame of format 255;'
#: Somebody who knows no secret comes to the port that the status of a relay names.
KNOCK = """\
import contextlib, json, socket, sys
port = json.loads(sys.argv[1])["listen"][0].rpartition(":")[2]
with socket.create_connection(("127.0.0.1", int(port))) as door:
    door.sendall(bytes([255]) * 3000)
    with contextlib.suppress(ConnectionResetError):
        door.recv(4096)
"""


def test_the_logs_of_all_relays_of_a_run_are_in_its_folder_when_it_is_over(firewalled: Bed, tmp_path: Path) -> None:
    pair = Pair(firewalled, tmp_path / "pair", steps=10_000, pause=0.05)
    try:
        run = pair.start(firewalled.sites_toml("alpha", "beta"), CLUSTERS, is_direct=False)
        run.until("left  | heard")
        alpha = firewalled.site("alpha")
        alpha.login.run([sys.executable, "-c", KNOCK, alpha.run(STATUS).stdout], cwd="/", timeout_s=LIMIT_S)
        run.interrupt()
        assert run.wait() == 130, run.output
    finally:
        pair.end()
    logs = {file.stem: file for file in (tmp_path / "pair/run/relays").iterdir()}
    assert {name: stat.S_IMODE(file.stat().st_mode) for name, file in logs.items()} == dict.fromkeys(
        ("here", "alpha", "beta"), 0o600
    )
    texts = {name: file.read_text() for name, file in logs.items()}
    assert all(": linked " in text for text in texts.values()), texts
    assert {name for name, text in texts.items() if OF_A_STRANGER in text} == {"alpha"}, texts


def test_streams_and_encryption_of_a_link_are_what_the_file_says(firewalled: Bed, tmp_path: Path) -> None:
    pair = Pair(firewalled, tmp_path / "pair", steps=10_000, pause=0.05)
    link = f"{LINK}streams = {STREAMS}\nencrypt = false\n"
    try:
        run = pair.start(firewalled.sites_toml("alpha", "beta") + "\n" + link, CLUSTERS, is_direct=False)
        run.until("left  | heard")
        for site, other in (("alpha", "beta"), ("beta", "alpha")):
            links = wait_until(
                lambda at=site, to=other: with_streams(links_at(firewalled, at), to), f"{STREAMS} streams of {site}"
            )
            assert not links[other]["encrypted"], links
            # The file says nothing of the ways to the launching machine.
            assert links["here"]["encrypted"], links
        run.interrupt()
        assert run.wait() == 130, run.output
    finally:
        pair.end()
