"""`xmml cp` through the firewalls of two sites."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from copy_that_goes_over import BEFORE_B
from copy_that_goes_over import words as words_going_over
from needs import needs
from waiting import wait_until
from wan import Site, Wan, why_not
from wan.ssh import sshd_on

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.timeout(300),
    needs("sshd", "ssh"),
]

XMML = str(Path(sys.executable).with_name("xmml"))
PORT = 40007
#: A copy takes a few seconds.
LIMIT_S = 120.0


def copied(wan: Wan, folder: Path, xmml: list[str], *options: str) -> dict[str, Any]:
    """Copies a file from the login node of here to that of there; the report."""
    data = os.urandom(2 * BEFORE_B)
    (folder / "file").write_bytes(data)
    with sshd_on(wan["there"].login, wan["there"].address, folder) as config:
        words = [*xmml, "cp", "--json", "--ssh", f"ssh -F {config}", "--remote", XMML, *options]
        done = wan["here"].login.run([*words, folder / "file", f"there:{folder}/copy"], timeout_s=LIMIT_S)
    assert (folder / "copy").read_bytes() == data
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize(
    ("here", "there", "way"),
    [
        ((), (22, PORT), "dialling the host"),
        ((PORT,), (22,), "dialled by the host"),
        ((), (22,), "through ssh"),
    ],
)
def test_a_copy_finds_the_way_that_the_firewalls_leave(
    here: tuple[int, ...], there: tuple[int, ...], way: str, tmp_path: Path
) -> None:
    xmml = [XMML] if way == "through ssh" else words_going_over()
    with Wan([Site("here", open_ports=here), Site("there", open_ports=there)], rtt_s=0.01, rate_bit_s=1e9) as wan:
        report = copied(wan, tmp_path, xmml, "--port", str(PORT), "--streams", "4")
    assert report["way"] == way
    assert report["streams"] == (1 if way == "through ssh" else 4)


def test_a_copy_goes_on_over_a_link_that_was_cut(tmp_path: Path) -> None:
    size_b = 40_000_000
    data = os.urandom(size_b)
    (tmp_path / "file").write_bytes(data)
    with (
        Wan([Site("here"), Site("there", open_ports=None)], rtt_s=0.01, rate_bit_s=20e6) as wan,
        sshd_on(wan["there"].login, wan["there"].address, tmp_path) as config,
    ):
        words = [XMML, "cp", "--way", "dial", "--ssh", f"ssh -F {config}", "--remote", XMML]
        copying = wan["here"].login.start([*words, tmp_path / "file", f"there:{tmp_path}/copy"])
        link = wan.link("here", "there")
        towards = link.towards("there")
        wait_until(lambda: towards.figures().bytes >= size_b / 4, "the copy does not begin", pause_s=0.002)
        with link.severed():
            cut = towards.figures().bytes
            wait_until(lambda: towards.figures().cut >= 5, "the link is not in use")
            assert copying.poll() is None
        link.set(rate_bit_s=1e9)
        assert copying.wait(LIMIT_S) == 0
        assert cut < size_b, "the link was cut in the middle"
    assert (tmp_path / "copy").read_bytes() == data
