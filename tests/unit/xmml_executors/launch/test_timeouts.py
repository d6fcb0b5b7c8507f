"""How long a site and we may be silent."""

from __future__ import annotations

import pytest
from xmml_executors.launch.site.timeouts import lease_of_gateway_s, lease_s, renewal_interval_s, site_timeout_s
from xmml_executors.outcome import SiteError


@pytest.mark.parametrize(
    ("environment", "lease", "given_up", "given_up_direct"),
    [
        ({}, 90.0, 60.0, 90.0),
        ({"XMML_SITE_LEASE_S": "30"}, 30.0, 30.0, 30.0),
        ({"XMML_AWAY_LIMIT_S": "6"}, 90.0, 6.0, 90.0),
        ({"XMML_AWAY_LIMIT_S": "0"}, 90.0, 90.0, 90.0),
        ({"XMML_SITE_LEASE_S": "", "XMML_AWAY_LIMIT_S": ""}, 90.0, 60.0, 90.0),
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
    assert renewal_interval_s(lease) < lease_of_gateway_s(lease) / 3 < lease / 3


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        *(("XMML_SITE_LEASE_S", text, "more than 0; .* for the usual 90") for text in ("abc", "0", "-1", "inf", "nan")),
        *(("XMML_AWAY_LIMIT_S", text, "0 or more; .* for the usual 60") for text in ("soon", "-1", "inf", "nan")),
    ],
)
def test_what_is_no_time_is_refused(variable: str, text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(SiteError, match=f"^{variable}={text} is not possible: .* of seconds, {expected}"):
        site_timeout_s(is_direct=True)
