"""Zenoh: a session for each end, connected directly; the param stands in the key, all attributes beside the payload."""

import os
import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ends
import numpy as np
import zenoh

MEMORY_B = 64 << 20
IS_SHARED = os.environ["BENCH_WORDS"] == "shm"
PORTS = os.environ["BENCH_PORTS"].split(",")


def session(number: int, role: str) -> zenoh.Session:
    """A writer listens, its reader connects; nobody else is looked for."""
    config = zenoh.Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    config.insert_json5("transport/shared_memory/enabled", "true" if IS_SHARED else "false")
    kind = {"writer": "listen", "reader": "connect"}
    for which, there in kind.items():
        endpoints = f'["tcp/127.0.0.1:{PORTS[number]}"]' if which == role else "[]"
        config.insert_json5(f"{there}/endpoints", endpoints)
    return zenoh.open(config)


def writer(number: int) -> None:
    with session(number, "writer") as own:
        options = {"congestion_control": zenoh.CongestionControl.BLOCK, "express": ends.IS_FLUSHED}
        publishers = [own.declare_publisher(f"bench/{number}/{param}", **options) for param in range(ends.PARAMS)]
        for publisher in publishers[: ends.WANTED]:
            while not publisher.matching_status.matching:
                time.sleep(0.01)
        are_wanted = [publisher.matching_status.matching for publisher in publishers]
        memory = zenoh.shm.ShmProvider.default_backend(max(MEMORY_B, 8 * ends.SIZE_B)) if IS_SHARED else None
        policy = zenoh.shm.BlockOn(zenoh.shm.GarbageCollect())

        def put(index: int) -> None:
            payload: Any = ends.BUFFER
            param = index % ends.PARAMS
            if memory is not None and are_wanted[param]:
                payload = memory.alloc(ends.SIZE_B, policy)
                payload[:] = ends.BUFFER
            publishers[param].put(payload, attachment=ends.packed(number, index))

        ends.write(put)


def reader(number: int) -> None:
    with session(number, "reader") as own:
        is_every = ends.WANTED == ends.PARAMS == 10
        keys = ["*"] if is_every else [str(param) for param in range(ends.WANTED)]
        samples: Iterator[zenoh.Sample]
        if len(keys) == 1:
            subscribers = [own.declare_subscriber(f"bench/{number}/{keys[0]}", zenoh.handlers.FifoChannel(256))]
            samples = iter(subscribers[0])
        else:
            arrived: queue.SimpleQueue[zenoh.Sample] = queue.SimpleQueue()
            subscribers = [own.declare_subscriber(f"bench/{number}/{key}", arrived.put) for key in keys]
            samples = iter(arrived.get, None)

        def objects() -> Iterator[tuple[int, Any]]:
            for sample in samples:
                field = np.frombuffer(sample.payload.to_bytes())
                yield ends.step_of(sample.attachment.to_bytes()), field

        ends.read(objects())
        del subscribers


def segments() -> set[Path]:
    return set(Path("/dev/shm").glob("*.zenoh"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(ends.play(writer, reader))
    before = segments()
    status = ends.play(writer, reader)
    # Sessions that have ended leave theirs behind.
    for segment in segments() - before:
        segment.unlink(missing_ok=True)
    sys.exit(status)
