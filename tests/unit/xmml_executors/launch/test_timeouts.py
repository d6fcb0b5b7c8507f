"""How long a site and we may be silent."""

from __future__ import annotations

import pytest
from xmml_executors.launch.site.timeouts import every_s, lease_of_proxy_s, lease_s, site_timeout_s


@pytest.mark.parametrize(
    ("environment", "lease", "given_up", "given_up_direct"),
    [
        ({}, 90.0, 60.0, 90.0),
        ({"XMML_SITE_LEASE_S": "30"}, 30.0, 30.0, 30.0),
        ({"XMML_AWAY_LIMIT_S": "6"}, 90.0, 6.0, 90.0),
        ({"XMML_AWAY_LIMIT_S": "0"}, 90.0, 90.0, 90.0),
        ({"XMML_SITE_LEASE_S": "0", "XMML_AWAY_LIMIT_S": "soon"}, 90.0, 60.0, 90.0),
        ({"XMML_SITE_LEASE_S": "inf", "XMML_AWAY_LIMIT_S": "-1"}, 90.0, 60.0, 90.0),
    ],
)
def test_a_site_is_given_up_before_its_instances_are_taken_for_lost(
    environment: dict[str, str],
    lease: float,
    given_up: float,
    given_up_direct: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("XMML_SITE_LEASE_S", "XMML_AWAY_LIMIT_S"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (lease_s(), site_timeout_s(is_direct=False), site_timeout_s(is_direct=True)) == (
        lease,
        given_up,
        given_up_direct,
    )
    assert every_s(lease) < lease_of_proxy_s(lease) / 3 < lease / 3
