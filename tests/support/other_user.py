"""What another user of a host tries against a run there. It needs the standard library alone.

Standard input: a JSON object with the `folder` of the run, the relative paths of its `files`, the numbers of its
`processes`, its abstract `sockets` and its `ports`. Standard output: the attempts, each with whether it succeeded.
"""

import contextlib
import json
import os
import signal
import socket
import sys

#: Connections to each socket and port that stay open until standard input ends.
EACH = 100
NONSENSE = (b'{"ask": "stop"}\n', b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100_000, b"xMML" + b"\xff" * 1000)


def attempt(what, action):
    """Try something; note whether the system lets us."""
    try:
        action()
    except OSError as error:
        return {"what": what, "succeeded": False, "why": os.strerror(error.errno) if error.errno else str(error)}
    return {"what": what, "succeeded": True, "why": ""}


def on_files(folder, files):
    for name in files:
        path = os.path.join(folder, name)
        yield attempt(f"read {name}", lambda path=path: os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        yield attempt(f"write {name}", lambda path=path: os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        yield attempt(f"exchange {name}", lambda path=path: os.rename(path, f"{path}.old"))
    yield attempt("list the folder", lambda: os.listdir(folder))
    yield attempt("make a file in the folder", lambda: os.open(os.path.join(folder, "new"), os.O_CREAT | os.O_WRONLY))
    yield attempt("exchange the folder", lambda: os.rename(folder, f"{folder}.old"))


def on_processes(numbers):
    for number in numbers:
        yield attempt(f"signal {number}", lambda number=number: os.kill(number, signal.SIGTERM))
        for name in ("environ", "mem", "maps"):
            path = f"/proc/{number}/{name}"
            yield attempt(f"read {name} of {number}", lambda path=path: os.read(os.open(path, os.O_RDONLY), 1))
        yield attempt(f"list descriptors of {number}", lambda number=number: os.listdir(f"/proc/{number}/fd"))


def flood(addresses):
    """Connect to everything, say nonsense, and hold the connections; return them."""
    held = []
    for family, address in addresses:
        for number in range(EACH):
            with contextlib.suppress(OSError):
                stream = socket.socket(family)
                stream.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    stream.connect(address)
                with contextlib.suppress(BlockingIOError):
                    stream.send(NONSENSE[number % len(NONSENSE)])
                held.append(stream)
    return held


def main():
    run = json.loads(sys.stdin.readline())
    found = [*on_files(run["folder"], run["files"]), *on_processes(run["processes"])]
    addresses = [(socket.AF_UNIX, f"\0{name}") for name in run["sockets"]]
    addresses += [(socket.AF_INET, ("127.0.0.1", port)) for port in run["ports"]]
    held = flood(addresses)
    print(json.dumps({"attempts": found, "connections": len(held)}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
