"""Sends numbered messages of many sizes until it is told to stop, and says how many.

counting_sender.py PROGRESS          PROGRESS: a file of two 64-bit numbers: messages so far; other than 0: stop
"""

import json
import sys
import zlib

import messages

import xmml

progress = messages.Progress(sys.argv[1])
check, size_b = 0, 0
with xmml.Instance() as me:
    me.reuse()
    while not progress.is_over:
        content = messages.content(progress.count)
        me.send("out", content)
        check = zlib.crc32(content, check)
        size_b += content.nbytes
        progress.count += 1
print(json.dumps({"messages": progress.count, "bytes": size_b, "check": check, "longest_gap_s": 0.0}))
