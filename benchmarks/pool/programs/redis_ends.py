"""Redis streams: one for each writer, or one for each param of it where readers choose. The server is started here."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ends
import numpy as np
import redis

#: So much is in a pipeline, and so many objects; a reader asks for as many.
BATCH_B, BATCH = 1 << 22, 64
PORT = int(os.environ["BENCH_PORTS"].split(",")[0])
SOCKET = Path(ends.FOLDER) / "redis.sock"


def connection() -> redis.Redis:
    if ends.OVER == "tcp":
        return redis.Redis(host="127.0.0.1", port=PORT)
    return redis.Redis(unix_socket_path=str(SOCKET))


def stream(number: int, param: int) -> str:
    return f"{number}:{param}" if ends.WANTED < ends.PARAMS else str(number)


def writer(number: int) -> None:
    pipeline = connection().pipeline(transaction=False)
    batch = 1 if ends.IS_FLUSHED else max(1, min(BATCH, BATCH_B // ends.SIZE_B))
    payload = bytes(ends.BUFFER)

    def put(index: int) -> None:
        pipeline.xadd(stream(number, index % ends.PARAMS), {"a": ends.packed(number, index), "p": payload})
        if len(pipeline) >= batch:
            pipeline.execute()

    ends.write(put, pipeline.execute)


def reader(number: int) -> None:
    server = connection()
    wanted = dict.fromkeys((stream(number, param) for param in range(ends.WANTED)), b"0")
    every = {stream(number, param) for param in range(ends.PARAMS)}

    def objects() -> Iterator[tuple[int, Any]]:
        while True:
            for name, entries in server.xread(wanted, count=BATCH, block=0):
                wanted[name.decode()] = entries[-1][0]
                for _, entry in entries:
                    yield ends.step_of(entry[b"a"]), np.frombuffer(entry[b"p"])

    def forget() -> None:
        for name in every:
            server.xtrim(name, maxlen=0, approximate=False)

    ends.read(objects(), between=forget)


def play() -> int:
    command = ["redis-server", "--save", "", "--appendonly", "no", "--dir", ends.FOLDER]
    command += ["--unixsocket", str(SOCKET), "--bind", "127.0.0.1", "--port", str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            while not SOCKET.exists() and server.poll() is None:
                time.sleep(0.01)
            return ends.play(writer, reader)
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(ends.play(writer, reader) if len(sys.argv) > 1 else play())
