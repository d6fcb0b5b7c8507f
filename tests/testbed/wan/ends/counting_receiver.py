"""Takes what counting_sender.py sends, until its end; fails if a message is lost, doubled, reordered or altered.

counting_receiver.py PROGRESS
"""

import json
import sys
import time
import zlib

import messages
import numpy as np

import xmml

progress = messages.Progress(sys.argv[1])
check, size_b, longest_gap_s = 0, 0, 0.0
with xmml.Instance() as me:
    me.reuse()
    last = None
    for message in me.messages("in"):
        now = time.monotonic()
        longest_gap_s = max(longest_gap_s, now - (last or now))
        last = now
        expected = messages.content(progress.count)
        if not np.array_equal(message.data, expected):
            raise ValueError(f"message {progress.count} is not what was sent")
        check = zlib.crc32(message.data, check)
        size_b += expected.nbytes
        progress.count += 1
print(json.dumps({"messages": progress.count, "bytes": size_b, "check": check, "longest_gap_s": longest_gap_s}))
