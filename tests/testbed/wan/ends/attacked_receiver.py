"""Takes so many values; fails if one is lost, doubled, reordered or altered, or a parameter is.

attacked_receiver.py VALUES
"""

import sys

import messages
import numpy as np

import xmml

with xmml.Instance() as me:
    assert me.params["told"] == "what the model says", me.params
    me.reuse()
    count = 0
    for message in me.messages("in"):
        assert np.array_equal(message.data, messages.words(count, 12_500)), f"value {count} is wrong"
        count += 1
    assert count == int(sys.argv[1]), f"{count} values came"
print(f"{count} values are right")
