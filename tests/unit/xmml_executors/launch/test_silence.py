"""How long what runs at a site goes on without us."""

from __future__ import annotations

import pytest
from xmml_executors.launch.silence import every_s, lease_of_programs_s, lease_s


@pytest.mark.parametrize(("given", "lease"), [("", 90.0), ("30", 30.0), ("0", 90.0), ("inf", 90.0), ("soon", 90.0)])
def test_a_lease_is_what_the_environment_says_and_renewed_often(
    given: str, lease: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XMML_SITE_LEASE_S", given)
    assert lease_s() == lease
    assert every_s(lease) < lease_of_programs_s() / 3 < lease / 3
