"""Messages that are exchanged, passed in a ring, scattered and gathered from Python, and whose memory they are in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from path_pairs import pair
from waiting import LIMIT_S

import xmml
from xmml import path

#: Its window is full as soon as a long message waits for the program.
NARROW = {"window": 1 << 20, "streams": 1}
LONG_B = 4 << 20


def numbers(seed: int, count: int = 700_000) -> np.ndarray:
    return np.random.default_rng(seed).random(count)


def filled(**settings: object) -> tuple[path.Path, path.Path]:
    """A path on which nothing more gets through before a message of zeros is taken at its second end."""
    here, there = pair(listening=NARROW, **settings)
    here.post(bytes(LONG_B))
    assert there.wait_next(timeout=LIMIT_S) == LONG_B
    return here, there


def in_thread(call: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[[], Any]:
    """Start a call; what is returned waits for what it returns."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call(*arguments, **named)), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), f"{call} still waits"
        return results[0]

    return result


def taken(there: path.Path) -> np.ndarray:
    message = there.receive(timeout=LIMIT_S)
    assert message is not None
    return np.frombuffer(message)


def test_memory_may_change_after_an_exchange_that_is_late() -> None:
    here, there = filled()
    sent = numbers(1)
    with pytest.raises(TimeoutError, match="tokyo sent no message in this time"):
        here.send_receive(sent, timeout=0.05)
    sent[:] = -1
    assert not taken(there).any()
    assert np.array_equal(taken(there), numbers(1))


def test_an_exchange_waits_for_the_answer_and_not_for_what_was_sent() -> None:
    here, there = filled()
    there.send(b"answer")
    sent = numbers(2)
    assert in_thread(here.send_receive, sent, timeout=LIMIT_S)() == b"answer"
    sent[:] = -1
    assert not taken(there).any()
    assert np.array_equal(taken(there), numbers(2))


def test_an_exchange_waits_for_room() -> None:
    here, there = pair(listening=NARROW, queue=1 << 20)
    for _ in range(2):
        here.post(bytes(LONG_B))
    with pytest.raises(TimeoutError, match="tokyo took no message in this time"):
        here.send_receive(b"too much", timeout=0.05)
    for _ in range(2):
        assert not taken(there).any()
    here.send(b"next", timeout=LIMIT_S)
    assert there.receive(timeout=LIMIT_S) == b"next"


def test_a_cycle_sends_on_one_path_and_receives_from_the_other() -> None:
    (right, right_there), (left, left_there) = pair(), pair()
    # Each path could give what is received, and each could take what is sent.
    right_there.send(b"of the right")
    left_there.send(b"of the left")
    sent = numbers(3)
    assert path.cycle(right, left, sent, timeout=LIMIT_S) == b"of the left"
    sent[:] = -1
    assert np.array_equal(taken(right_there), numbers(3))
    assert left_there.take() is None
    assert right.receive(timeout=LIMIT_S) == b"of the right"
    left_there.finish()
    assert path.cycle(right, left, b"last", timeout=LIMIT_S) is None


def test_parts_of_any_length_are_scattered_and_gathered_in_the_order_of_the_paths() -> None:
    (one, one_there), (other, other_there) = pair(streams=2), pair(streams=1)
    for ends, theirs in (((one, other), (one_there, other_there)), ((other, one), (other_there, one_there))):
        parts = [numbers(4), bytearray(range(256)) * 600, b"constant" * 20_000]
        expected = [bytes(part) for part in parts]
        for chosen in (parts[:2], parts[1:]):
            path.scatter(ends, chosen)
        parts[0][:] = -1
        parts[1][:] = bytes(len(parts[1]))
        for chosen in (expected[:2], expected[1:]):
            assert [bytes(part) for part in path.gather(theirs, timeout=LIMIT_S)] == chosen


def test_a_scatter_sends_on_all_paths_at_once() -> None:
    (one, one_there), (other, other_there) = filled(), pair()
    parts = [numbers(5), numbers(6)]
    scattered = in_thread(path.scatter, [one, other], parts)
    assert np.array_equal(taken(other_there), numbers(6)), "nobody has taken anything of the first path yet"
    assert not taken(one_there).any()
    assert np.array_equal(taken(one_there), numbers(5))
    scattered()


def test_memory_may_change_after_a_scatter_that_is_late() -> None:
    (one, one_there), (other, other_there) = filled(), filled()
    parts = [numbers(7), numbers(8)]
    path.scatter([one, other], parts, timeout=0.05)
    for part in parts:
        part[:] = -1
    for there, seed in ((one_there, 7), (other_there, 8)):
        assert not taken(there).any()
        assert np.array_equal(taken(there), numbers(seed))


def test_a_scatter_that_finds_no_room_sends_nothing() -> None:
    (one, one_there), (other, other_there) = pair(), pair(listening=NARROW, queue=1 << 20)
    for _ in range(2):
        other.post(bytes(LONG_B))
    with pytest.raises(TimeoutError, match="tokyo took no message in this time"):
        path.scatter([one, other], [b"1", b"22"], timeout=0.05)
    one.send(b"first")
    assert one_there.receive(timeout=LIMIT_S) == b"first"
    with pytest.raises(xmml.Error, match="1 parts for 2 paths"):
        path.scatter([one, other], [b"1"])
    assert other_there.wait_next(timeout=LIMIT_S) == LONG_B


def test_a_gather_takes_no_path_twice() -> None:
    one, _ = pair()
    with pytest.raises(xmml.Error, match="twice"):
        path.gather([one, one], timeout=0)


def test_a_gather_that_is_late_takes_nothing() -> None:
    (one, one_there), (other, other_there) = pair(), pair()
    one.send(b"1")
    assert one_there.wait_next(timeout=LIMIT_S) == 1
    with pytest.raises(TimeoutError, match="amsterdam sent no message in this time"):
        path.gather([one_there, other_there], timeout=0.02)
    other.send(b"22")
    assert path.gather([one_there, other_there], timeout=LIMIT_S) == [b"1", b"22"]
    one.send(b"333")
    other.finish()
    with pytest.raises(xmml.Error, match="amsterdam: it has ended before its part came"):
        path.gather([one_there, other_there], timeout=LIMIT_S)
    assert one_there.receive(timeout=LIMIT_S) == b"333"
    assert other_there.wait_next(timeout=LIMIT_S) is None
