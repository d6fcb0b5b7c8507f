"""What a member of the ring reports: when it had its first messages. The same is in xmml_member.cpp."""

import fcntl
import os
import time


def received(name: str) -> None:
    """Appends a line to $BENCH_OUT/received, then waits while $BENCH_OUT/hold is locked (to measure memory)."""
    line = f"{name} {time.monotonic():.9f}\n".encode()
    folder = os.environ["BENCH_OUT"]
    file = os.open(f"{folder}/received", os.O_WRONLY | os.O_APPEND)
    os.write(file, line)
    os.close(file)
    hold = os.open(f"{folder}/hold", os.O_RDONLY)
    fcntl.flock(hold, fcntl.LOCK_SH)
    os.close(hold)
