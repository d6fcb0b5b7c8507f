"""Opens so many connections a second to a door, says nothing on them, and keeps the last ones open, until it is killed.

flooder.py HOST PORT RATE

Writes a line with the number of connections so far, and of those that the door has closed, a few times a second.
"""

import collections
import contextlib
import resource
import select
import socket
import sys
import time

host, port, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
#: Connections that stay open; more than any door takes.
KEPT = 4000
REPORT_S = 0.25

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
standing: collections.OrderedDict[int, socket.socket] = collections.OrderedDict()
watch = select.epoll()
opened = closed = 0
began = time.monotonic()
reported = began
while True:
    now = time.monotonic()
    while opened < (now - began) * rate:
        stranger = socket.socket()
        stranger.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            stranger.connect((host, port))
        watch.register(stranger, select.EPOLLRDHUP)
        standing[stranger.fileno()] = stranger
        opened += 1
        if len(standing) > KEPT:
            _, oldest = standing.popitem(last=False)
            oldest.close()
    for descriptor, _ in watch.poll(0.001, 1000):
        if ended := standing.pop(descriptor, None):
            closed += 1
            ended.close()
    if now - reported > REPORT_S:
        reported = now
        print(opened, closed, f"{now - began:.3f}", flush=True)
