"""Models with other run times, cores, scales and copies."""

from __future__ import annotations

import pytest
from small_models import model

from xmml.analysis.network import network
from xmml.analysis.what_if import SettingError, with_runtimes, with_settings

PAIR = "m 3 runtime=3 cores=2\nu 2\nm.Oi -> u.finit\nu.Of -> m.S"


def test_a_run_time_is_a_time() -> None:
    changed = network(with_settings(model(PAIR), {"m.runtime": "10 min"}))
    assert changed.processes[0].runtime_ns == 600 * 10**9


def test_cores_replace_ranks_and_threads() -> None:
    assert network(with_settings(model(PAIR), {"m.cores": "256"})).processes[0].cores == 256


def test_a_finer_step_means_more_steps() -> None:
    assert with_settings(model(PAIR), {"m.delta": "500 ms"}).instances["m"].steps == 6


def test_a_longer_total_means_more_steps() -> None:
    assert with_settings(model(PAIR), {"m.total": "1 min"}).instances["m"].steps == 60


def test_copies_become_processes() -> None:
    text = "a\ns mapper\nu\na.Of -> s.in\ns.out -> u.finit"
    assert len(network(with_settings(model(text), {"u.multiplicity": "5"})).processes) == 7


def test_the_model_itself_stays_as_it_is() -> None:
    before = model(PAIR)
    with_settings(before, {"m.total": "1 min"})
    assert before.instances["m"].steps == 3


def test_measured_run_times_replace_those_of_the_model() -> None:
    assert network(with_runtimes(model(PAIR), {"u": 0.25})).processes[1].runtime_ns == 250_000_000


@pytest.mark.parametrize(
    ("target", "value", "text"),
    [
        ("n.runtime", "1 s", 'there is no instance "n"'),
        ("m.run_time", "1 s", 'did you mean "runtime"'),
        ("m.runtime", "1 km", "no time"),
        ("m.runtime", "-1 s", "cannot be negative"),
        ("m.cores", "many", "a whole number from 1 on"),
        ("m.cores", "9" * 1000, "a whole number from 1 on"),
        ("m.delta", "0 s", "longer than nothing"),
        ("m.total", "1 ms", "smaller than delta"),
        ("m.multiplicity", "1000000000", "more than 100,000 copies"),
    ],
)
def test_what_fits_nothing_is_refused_with_the_reason(target: str, value: str, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        with_settings(model(PAIR), {target: value})
