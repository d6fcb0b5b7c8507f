"""An end of a path of two streams on which nothing passes but what the test asks for.

quiet_path.py listen             prints the port at which it listens
quiet_path.py dial HOST:PORT

Says `stands` when both streams do. Each line of its standard input is sent as a message, each message that comes is
printed as a line. It ends with its standard input.
"""

import os
import sys
import threading
import time

from xmml import path

WHO = {"secret": b"both ends of a test know it", "run": "quiet"}
STREAMS = 2
LIMIT_S = 60.0


def opened() -> path.Path:
    if sys.argv[1] == "dial":
        return path.dial(sys.argv[2], "listening", name="dialling", streams=STREAMS, timeout=LIMIT_S, **WHO)
    listener = path.listen("0.0.0.0:0", name="listening", streams=STREAMS, **WHO)
    print(listener.address.rpartition(":")[2], flush=True)
    return listener.accept(timeout=LIMIT_S)


def say_what_comes(end: path.Path) -> None:
    while (message := end.receive()) is not None:
        print(bytes(message).decode(), flush=True)


end = opened()
until = time.monotonic() + LIMIT_S
while end.stats()["streams"] < STREAMS:
    assert time.monotonic() < until, "the streams do not stand"
    time.sleep(0.005)
print("stands", flush=True)
threading.Thread(target=say_what_comes, args=[end], daemon=True).start()
for line in sys.stdin:
    end.send(line.strip().encode())
os._exit(0)
