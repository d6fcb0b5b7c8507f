"""What stops a run reaches it whatever the threads of its process do."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from waiting import LIMIT_S
from xmml_executors.stop_signals import STOP_SIGNALS, StopRequests, on_stop


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_is_heard_while_the_main_thread_waits_for_something_else(number: signal.Signals) -> None:
    heard, meanwhile, reader = threading.Event(), [], os.pipe()

    def send() -> None:
        time.sleep(0.1)  # by now the main thread waits
        signal.pthread_kill(threading.get_ident(), number)  # which the kernel does not interrupt for that
        meanwhile.append(heard.wait(LIMIT_S))
        os.write(reader[1], b"over")

    with on_stop(heard.set):
        sender = threading.Thread(target=send)
        sender.start()
        assert os.read(reader[0], 4) == b"over"
        sender.join()
        assert meanwhile == [True]
    for descriptor in reader:
        os.close(descriptor)


def test_a_signal_does_what_it_did_before_when_the_block_is_over() -> None:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with on_stop(lambda: None):
        assert {number: signal.getsignal(number) for number in STOP_SIGNALS} != before
    assert {number: signal.getsignal(number) for number in STOP_SIGNALS} == before


def test_a_request_calls_as_long_as_the_block_lasts_and_is_kept_for_later_then() -> None:
    requests, calls = StopRequests(), []
    with on_stop(lambda: calls.append("called"), requests):
        requests.request()
        assert not requests.is_requested
    assert calls == ["called"]
    requests.request()
    assert requests.is_requested
    requests.close()
