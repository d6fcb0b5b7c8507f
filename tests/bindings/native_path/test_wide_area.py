"""Paths from Python: what passes, what is refused, and that the interpreter is free meanwhile."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from path_pairs import WHO, kept_address, pair
from waiting import LIMIT_S, RUN_LIMIT_S, wait_until
from wan.soak import LONG

import xmml
from xmml import path

#: Who listens comes so late: in the long form later than a path is dialled if nobody says for how long.
LATE_S = 32 if LONG else 0.2


def test_messages_of_any_size_and_kind_of_memory_pass() -> None:
    here, there = pair(streams=3)
    for data in (b"", b"hello", bytearray(300_000), np.arange(500_000.0), memoryview(b"view")):
        here.send(data, timeout=LIMIT_S)
        received = there.receive(timeout=LIMIT_S)
        assert received is not None
        assert bytes(received) == bytes(data)


def test_memory_may_change_after_a_send() -> None:
    here, there = pair(streams=2)
    numbers = np.arange(3_000_000.0)
    here.send(numbers)
    numbers[:] = 0
    received = np.frombuffer(there.receive(timeout=LIMIT_S))
    assert np.array_equal(received, np.arange(3_000_000.0))
    received[0] = 1  # it is the program's own


_RELEASES = """
from xmml import path
who = {"secret": b"of both ends", "run": "survey"}
for rounds in (200, *[1] * 20):
    listener = path.listen("127.0.0.1:0", name="tokyo", **who)
    here = path.dial(listener.address, "tokyo", name="amsterdam", **who)
    there = listener.accept(timeout=60)
    for _ in range(rounds):
        for _ in range(20):
            here.post(bytearray(10_000))
        for _ in range(20):
            while there.take() is None:
                assert here.state == "open" and here.stats()["streams"] > 0 and not here.has_ended()
"""


def test_a_path_can_be_asked_and_dropped_while_its_thread_releases_what_arrived() -> None:
    """That thread needs the interpreter for it, while it holds what the questions need."""
    subprocess.run([sys.executable, "-c", _RELEASES], check=True, timeout=RUN_LIMIT_S)


_LEFT = """
import atexit
atexit.register(lambda: print(here.state, there.state))  # what is registered first comes last
from xmml import path
who = {"secret": b"of both ends", "run": "survey"}
listener = path.listen("127.0.0.1:0", name="tokyo", **who)
here = path.dial(listener.address, "tokyo", name="amsterdam", **who)
there = listener.accept(timeout=60)
for _ in range(100):
    here.post(bytearray(10_000))
"""


def test_paths_are_left_before_the_interpreter_ends() -> None:
    """Later their threads could not let go of what was sent, and whoever drops a path would wait for them for good."""
    done = subprocess.run(
        [sys.executable, "-c", _LEFT], check=True, timeout=RUN_LIMIT_S, capture_output=True, text=True
    )
    here, there = done.stdout.split()
    assert (here, there) == ("failed", "failed")  # nothing can pass any more, and nobody has closed them


def test_other_threads_run_while_one_waits() -> None:
    here, there = pair()
    threading.Timer(0.05, lambda: there.send(b"now")).start()
    assert here.receive(timeout=LIMIT_S) == b"now"


def test_lanes_tickets_barriers_and_ends() -> None:
    here, there = pair(streams=1)
    ticket = here.post(b"x" * 100_000)
    here.send(b"urgent", lane="control")
    assert there.receive("control", timeout=LIMIT_S) == b"urgent"
    assert there.take("control") is None
    assert here.arrived(ticket, timeout=LIMIT_S)
    assert here.flush(timeout=LIMIT_S)
    waiting = threading.Thread(target=there.barrier, args=(LIMIT_S,))
    waiting.start()
    assert here.barrier(timeout=LIMIT_S)
    waiting.join()
    ending = threading.Thread(target=here.close)
    ending.start()
    assert len(there.receive(timeout=LIMIT_S) or b"") == 100_000
    assert there.receive(timeout=LIMIT_S) is None
    assert there.has_ended()
    assert there.close()
    ending.join()
    assert (here.state, there.state) == ("closed", "closed")


def test_a_relay_passes_messages_and_ends_on() -> None:
    (a, near), (far, b) = pair(), pair()
    relaying = threading.Thread(target=path.relay, args=(near, far))
    relaying.start()
    b.send(b"from b")
    assert path.cycle(a, a, b"from a", timeout=LIMIT_S) == b"from b"
    assert b.receive(timeout=LIMIT_S) == b"from a"
    a.finish()
    b.finish()
    relaying.join(LIMIT_S)
    assert not relaying.is_alive()


def test_a_relay_passes_failures_on() -> None:
    (a, near), (far, b) = pair(), pair()
    failures: list[BaseException] = []

    def relay() -> None:
        with pytest.raises(xmml.Error, match="has ended it") as failure:
            path.relay(near, far)
        failures.append(failure.value)

    relaying = threading.Thread(target=relay, daemon=True)
    relaying.start()
    a.send(b"from a")
    assert b.receive(timeout=LIMIT_S) == b"from a"
    del a
    with pytest.raises(xmml.Error, match="has lost a path"):
        b.receive(timeout=LIMIT_S)
    relaying.join(LIMIT_S)
    assert len(failures) == 1
    assert "not known to have passed on" in str(failures[0])


_RELAY = """
import sys
from xmml import path
who = {"secret": b"of both ends", "run": "survey", "name": "osaka", "relays": True}
listener = path.listen(sys.argv[1], **who)
print(listener.address, flush=True)
near = listener.accept(timeout=60)
if len(sys.argv) > 2:
    path.relay(near, path.dial(sys.argv[2], "tokyo", **who))
near.finish()
sys.stdin.read()
"""


@contextmanager
def relaying_process(address: str, *onward: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A relay to who listens at `onward`, and where it listens; without that it says that it has finished."""
    command = [sys.executable, "-c", _RELAY, address, *onward]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def until_it_fails(there: path.Path) -> Iterator[memoryview]:
    try:
        while True:
            message = there.receive(timeout=LIMIT_S)
            assert message is not None, "what was cut short is taken for an orderly end"
            yield message
    except xmml.Error:
        return


@pytest.mark.parametrize("sure", [0, 20, 60])
def test_what_has_arrived_is_there_though_the_relay_was_killed(sure: int) -> None:
    # The last end takes nothing before: never more than its window comes there.
    last = path.listen("127.0.0.1:0", name="tokyo", patience=0.2, window=8 << 20, **WHO)
    with relaying_process("127.0.0.1:0", last.address) as (process, address):
        here = path.dial(address, "osaka", name="amsterdam", patience=0.2, **WHO)
        there = last.accept(timeout=LIMIT_S)
        tickets = [here.post(number.to_bytes(2, "big") * 50_000) for number in range(300)]
        assert here.arrived(tickets[sure], timeout=LIMIT_S)
        process.kill()
        with pytest.raises(xmml.Error) as failure:
            here.flush(timeout=LIMIT_S)
    came = [bytes(message[:2]) for message in until_it_fails(there)]
    assert came == [number.to_bytes(2, "big") for number in range(len(came))]

    def arrived(ticket: int) -> bool:
        try:
            return here.arrived(ticket)
        except xmml.Error:
            return False

    known = sum(map(arrived, tickets))
    assert sure < known <= len(came)
    assert f"not known to have arrived: {300 - known} message" in str(failure.value)


def test_who_has_finished_is_told_when_a_killed_relay_that_had_finished_kept_something() -> None:
    with kept_address() as chosen:
        with relaying_process(chosen) as (process, address):
            here = path.dial(address, "osaka", name="amsterdam", **WHO)
            here.send(b"12345")
            assert here.receive(timeout=LIMIT_S) is None
            here.finish()
            process.kill()
            process.wait()
        again = path.listen(address, name="osaka", **WHO)
        with pytest.raises(xmml.Error, match=r"not known to have arrived: 1 message \(5 bytes\)"):
            here.close(timeout=LIMIT_S)
        assert again.address == address == chosen


def test_settings_change_and_are_checked() -> None:
    here, there = pair(streams=2, link=(0.01, 1e8))
    here.set(streams=5, pace=10**9, chunk=65536)

    def has_five_streams() -> bool:
        here.send(b"x" * 1000)
        there.receive(timeout=LIMIT_S)
        return here.stats()["streams"] == 5

    wait_until(has_five_streams, lambda: f"there are {here.stats()['streams']} streams")
    for wrong in ({"streams": 0}, {"streams": "many"}, {"zero_copy": "always"}, {"windw": 3}, {"silence": -1.0}):
        with pytest.raises(xmml.Error):
            here.set(**wrong)


def await_reason(here: path.Path, why: str) -> None:
    """Wait until a path says why it copies."""

    def said() -> str:
        return str(here.stats()["why_copied"])

    wait_until(lambda: said().startswith(why), said)


def test_a_path_says_whether_it_sends_without_copies_and_why_not() -> None:
    here, there = pair(streams=1)
    message = bytes(range(256)) * (1 << 12)
    for zero_copy, least_b, most_b, why in (
        ("off", 0, 0, "the path was told to copy"),
        ("auto", 1 << 16, 1 << 20, "the kernel copied all the same"),
        ("on", 1 << 20, 1 << 24, "the kernel copied all the same"),
    ):
        here.set(zero_copy=zero_copy)
        before_b = here.stats()["zero_copy_bytes"]
        for _ in range(4):
            here.send(message)
            assert there.receive(timeout=LIMIT_S) == message
        await_reason(here, why)
        stats = here.stats()
        assert least_b <= stats["zero_copy_bytes"] - before_b <= most_b
        assert stats["zero_copy_streams"] == 0


def test_waits_end_in_time_and_say_for_what() -> None:
    here, _ = pair()
    with pytest.raises(TimeoutError, match="no message came from tokyo"):
        here.receive(timeout=0.05)
    assert not here.close(0.05), "the other end has not finished"
    for nonsense in (-1.0, float("nan")):
        with pytest.raises(xmml.Error, match=r"timeout=.* is not a number of seconds"):
            here.receive(timeout=nonsense)


def test_a_wrong_secret_is_told_and_a_time_passes() -> None:
    listener = path.listen("127.0.0.1:0", name="tokyo", **WHO)
    with pytest.raises(TimeoutError, match="nobody dialled"):
        listener.accept(timeout=0.01)

    is_refused = threading.Event()

    def accept_nobody() -> None:
        while not is_refused.is_set():
            with pytest.raises(TimeoutError):
                listener.accept(timeout=0.2)

    accepting = threading.Thread(target=accept_nobody)
    accepting.start()
    try:
        with pytest.raises(xmml.Error, match="secret"):
            path.dial(listener.address, "tokyo", secret=b"another", run="survey", name="amsterdam")
    finally:
        is_refused.set()
        accepting.join()
    with pytest.raises(ValueError, match="either"):
        path.listen("127.0.0.1:0", run="survey", name="tokyo")
    with pytest.raises(xmml.Error, match="secret of a path is empty"):
        path.listen("127.0.0.1:0", secret=b"", run="survey", name="tokyo")


def test_a_path_is_dialled_without_end() -> None:
    with kept_address() as address:
        opened: list[path.Path] = []

        def dial() -> None:
            opened.append(path.dial(address, "tokyo", name="amsterdam", timeout=None, **WHO))

        dialling = threading.Thread(target=dial, daemon=True)
        dialling.start()
        dialling.join(LATE_S)
        assert dialling.is_alive(), "it waits"
        listener = path.listen(address, name="tokyo", **WHO)
        there = listener.accept(timeout=LIMIT_S)
        dialling.join(LIMIT_S)
        assert there.peer == "amsterdam"
    assert [here.state for here in opened] == ["open"]


def test_encrypted_paths_need_certificates_that_are_known(tmp_path: Path) -> None:
    mine = path.make_credentials(tmp_path / "mine.pem", "amsterdam", 3600)
    theirs = path.make_credentials(tmp_path / "theirs.pem", "tokyo", 3600)
    assert stat.S_IMODE((tmp_path / "mine.pem").stat().st_mode) == 0o600
    there_too = {"name": "tokyo", "credentials_file": tmp_path / "theirs.pem", "trusted": [mine]}
    listener = path.listen("127.0.0.1:0", **WHO, **there_too)
    here_too = {"name": "amsterdam", "credentials_file": tmp_path / "mine.pem"}
    here = path.dial(listener.address, "tokyo", **WHO, **here_too, trusted=[theirs])
    there = listener.accept(timeout=LIMIT_S)
    here.send(b"s" * 1_000_000)
    assert len(there.receive(timeout=LIMIT_S) or b"") == 1_000_000
    with pytest.raises(xmml.Error, match="not one of those that are trusted"):
        path.dial(listener.address, "tokyo", **WHO, **here_too, trusted=[mine])
    path.make_credentials(tmp_path / "another.pem", "amsterdam", 3600)
    here_too["credentials_file"] = tmp_path / "another.pem"
    with pytest.raises(xmml.Error, match="refuses the certificate of this end"):
        path.dial(listener.address, "tokyo", **WHO, **here_too, trusted=[theirs])
    with pytest.raises(TimeoutError, match=r"nobody was let in .* is not one of those that are trusted"):
        listener.accept(timeout=0.01)


def test_certificates_that_are_trusted_without_one_of_this_end_are_an_error_and_no_path_in_clear() -> None:
    with pytest.raises(xmml.Error, match="certificates are trusted on encrypted paths only: give credentials, too"):
        path.listen("127.0.0.1:0", name="tokyo", trusted=["0" * 64], **WHO)


def test_files_that_others_can_read_are_refused(tmp_path: Path) -> None:
    secret, key = tmp_path / "secret", tmp_path / "mine.pem"
    secret.write_text("0f" * 32)
    path.make_credentials(key, "tokyo", 3600)
    there = {"run": "survey", "name": "tokyo"}
    for mode in (0o644, 0o640):
        secret.chmod(mode)
        with pytest.raises(PermissionError, match=rf"{secret}: others can read this secret \(mode {mode:o}\)"):
            path.listen("127.0.0.1:0", secret_file=secret, **there)
    secret.chmod(0o600)
    assert path.listen("127.0.0.1:0", secret_file=secret, credentials_file=key, **there).address
    secret.write_text("0f" * 15)
    with pytest.raises(ValueError, match="has 15 bytes; at least 16 are needed"):
        path.listen("127.0.0.1:0", secret_file=secret, **there)
    secret.write_text("0f" * 16)
    key.chmod(0o644)
    with pytest.raises(PermissionError, match="others can read this key"):
        path.dial("127.0.0.1:1", "tokyo", secret_file=secret, credentials_file=key, **there)


def test_importing_the_language_does_not_load_paths() -> None:
    code = "import sys, xmml; assert 'xmml.path' not in sys.modules; xmml.Path; assert 'xmml.path' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
