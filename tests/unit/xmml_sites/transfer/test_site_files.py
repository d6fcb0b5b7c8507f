"""What is told of files that cannot be brought to a site or back."""

from __future__ import annotations

import re

import pytest
from example_programs import ROOT
from xmml_sites.transfer.site_files import without_advice

ADVICE = re.findall(r'\(libc::E[A-Z]+, "(.+)"\)', (ROOT / "native/transfer/src/target.rs").read_text())


def test_copies_are_advised_where_a_disk_takes_no_more() -> None:
    assert len(ADVICE) == 3


@pytest.mark.parametrize("advice", dict.fromkeys(ADVICE))
def test_a_run_does_not_give_the_advice_of_a_copy(advice: str) -> None:
    assert without_advice(f"mesh.nc: No space left on device; {advice}") == "mesh.nc: No space left on device"
