"""The destinations of sites: what is printed leads there when a person types it."""

from __future__ import annotations

import pytest
from xmml_planner.sites import SitesError
from xmml_planner.sites.reading import sites_from_text
from xmml_sites.ssh import SiteUnreachable
from xmml_sites.ssh.destination import read_destination


@pytest.mark.parametrize(
    ("destination", "command"),
    [
        ("alpha", "ssh alpha"),
        ("me@alpha", "ssh me@alpha"),
        ("me@alpha.example.org:2222", "ssh -p 2222 me@alpha.example.org"),
        ("me@[fe80::1]:2222", "ssh -p 2222 me@fe80::1"),
        ("DOMAIN\\me@alpha", "ssh 'DOMAIN\\me@alpha'"),
    ],
)
def test_a_site_that_cannot_be_reached_names_a_command_that_ssh_takes(destination: str, command: str) -> None:
    told = str(SiteUnreachable("alpha", read_destination(destination), "no route to host"))
    assert told.startswith(f"site alpha: {destination} cannot be reached: no route to host; ")
    assert told.endswith(f"with: {command}")


@pytest.mark.parametrize(
    "text",
    ["a$(id)", "a;id", "a`id`", "me;id@a", "$(id)@a", "*", "*,a", "a?", "!a", "#a", "-oProxyCommand=id", "-x@a", "a b"],
)
def test_what_means_something_to_a_shell_or_to_known_hosts_is_no_destination(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        read_destination(text)
    with pytest.raises(SitesError, match=r"is not an ssh destination|this is a command"):
        sites_from_text(f'[site.alpha]\nssh = "{text}"\ncores = 1\n')
