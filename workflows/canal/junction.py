"""A junction: two or three canals meet at one water level, and what flows out of some flows into the others.

Every end sends a wave back into its canal when the level at the junction differs from its own. The level is the one for
which the discharges of all ends add up to nothing.
"""

from hydraulics import Edge

import xmml

with xmml.Instance() as me:
    ends = [end for end in "abc" if me.connected(f"{end}_in")]
    while me.reuse():
        edges = [Edge.of(me.receive(f"{end}_in").data) for end in ends]

        # Added up by hand: sum() of newer Pythons compensates rounding, and C++ does not.
        here = edges[0].level
        excess = conveyance = 0.0
        for edge in edges:
            excess += edge.discharge + edge.conveyance * (edge.level - here)
            conveyance += edge.conveyance
        level = here + excess / conveyance

        for end, edge in zip(ends, edges, strict=True):
            discharge = edge.discharge + edge.conveyance * (edge.level - level)
            me.send(f"{end}_out", edge.amount(level, discharge, me.delta))
