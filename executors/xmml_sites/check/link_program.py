"""What two sites run to measure the way between them. Its text is sent there: it needs a Python, not xMML.

The two ends know each other by a word drawn for this one measurement, which travels on standard input, never as an
argument.
"""

import json
import socket
import sys
import threading
import time

WORD = ""  # replaced before the text is sent
STREAMS = 4
PINGS = 8
LIMIT_S = 20.0
CONNECT_S = 5.0
SENDING_S = 0.7
PIECE = 1 << 18


def serve(port: int) -> None:
    """Listen, answer one partner, go."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
    except OSError as error:
        print(json.dumps({"error": error.strerror}), flush=True)
        return
    listener.listen(16)
    listener.settimeout(LIMIT_S)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    streams: list[socket.socket] = []
    end = time.monotonic() + LIMIT_S
    while len(streams) < STREAMS and time.monotonic() < end:
        try:
            stream = listener.accept()[0]
            stream.settimeout(LIMIT_S)
            if _read(stream, len(WORD)) == WORD.encode():
                stream.sendall(b"y")
                streams.append(stream)
            else:
                stream.close()
        except OSError:
            break
    threads = [threading.Thread(target=_answer, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer(stream: socket.socket) -> None:
    try:
        while True:
            kind = _read(stream, 1)
            if kind == b"p":
                stream.sendall(b"p")
            elif kind == b"b":
                total = 0
                while True:
                    data = stream.recv(PIECE)
                    if not data:
                        break
                    total += len(data)
                stream.sendall(b"%20d" % total)
                return
            else:
                return
    except OSError:
        pass


def dial(host: str, port: int) -> None:
    """Measure: the shortest way there and back, and what several streams carry together."""
    try:
        streams: list[socket.socket] = []
        for _ in range(STREAMS):
            stream = socket.create_connection((host, port), CONNECT_S)
            stream.settimeout(LIMIT_S)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream.sendall(WORD.encode())
            if _read(stream, 1) != b"y":
                raise OSError("another process listens there")
            streams.append(stream)
        least = 1e9
        for _ in range(PINGS):
            started = time.perf_counter()
            streams[0].sendall(b"p")
            _read(streams[0], 1)
            least = min(least, time.perf_counter() - started)
        totals: list[int] = []
        started = time.perf_counter()
        threads = [threading.Thread(target=_send, args=(stream, started, totals)) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - started
        print(json.dumps({"round_trip_s": least, "bandwidth": sum(totals) / took}), flush=True)
    except OSError as error:
        print(json.dumps({"error": error.strerror or str(error)}), flush=True)


def reach(host: str, port: int) -> None:
    """Whether anything listens there."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
        print(json.dumps({"reached": True}), flush=True)
    except OSError as error:
        print(json.dumps({"error": error.strerror or str(error)}), flush=True)


def _send(stream: socket.socket, started: float, totals: list[int]) -> None:
    try:
        stream.sendall(b"b")
        data = bytes(PIECE)
        while time.perf_counter() < started + SENDING_S:
            stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        totals.append(int(_read(stream, 20)))
    except OSError:
        pass


def _read(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.recv(size - len(data))
        if not piece:
            raise OSError("the other end hung up")
        data += piece
    return data


if WORD:
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    elif sys.argv[1] == "dial":
        dial(sys.argv[2], int(sys.argv[3]))
    else:
        reach(sys.argv[2], int(sys.argv[3]))
