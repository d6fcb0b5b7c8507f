"""Sends so many values to each receiver.

attacked_sender.py VALUES
"""

import sys

import messages

import xmml

with xmml.Instance() as me:
    me.reuse()
    for number in range(int(sys.argv[1])):
        me.send("out", messages.words(number, 12_500))
