"""The destinations of sites: what is printed leads there when a person types it."""

from __future__ import annotations

import pytest
from xmml_sites.ssh import SiteUnreachable
from xmml_sites.ssh.destination import read_destination


@pytest.mark.parametrize(
    ("destination", "command"),
    [
        ("alpha", "ssh alpha"),
        ("me@alpha", "ssh me@alpha"),
        ("me@alpha.example.org:2222", "ssh -p 2222 me@alpha.example.org"),
        ("me@[fe80::1]:2222", "ssh -p 2222 me@fe80::1"),
        ("me;$(id)@alpha", "ssh 'me;$(id)@alpha'"),
    ],
)
def test_a_site_that_cannot_be_reached_names_a_command_that_ssh_takes(destination: str, command: str) -> None:
    told = str(SiteUnreachable("alpha", read_destination(destination), "no route to host"))
    assert told.startswith(f"site alpha: {destination} cannot be reached: no route to host; ")
    assert told.endswith(f"with: {command}")
