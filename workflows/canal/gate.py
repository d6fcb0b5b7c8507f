"""A gate between two canals: water passes under it, driven by the difference of the levels; at first it is closed.

The discharge Q through an opening of area A is 0.6 A sqrt(2 g difference), and the difference itself falls with Q,
because the canal upstream sinks and the one downstream rises when water passes: a quadratic equation.
"""

from math import sqrt

from hydraulics import GRAVITY, Edge

import xmml

CONTRACTION = 0.6  # of the jet under the gate

with xmml.Instance() as me:
    opens_at = me.param("opens_at", float, unit="s")
    opens_within = me.param("opens_within", float, unit="s")
    area = me.param("area", float)  # m^2, when open

    while me.reuse():
        up, down = Edge.of(me.receive("up_in").data), Edge.of(me.receive("down_in").data)
        opened = min(1.0, max(0.0, (me.origin - opens_at) / opens_within))

        difference = (up.level + up.discharge / up.conveyance) - (down.level + down.discharge / down.conveyance)
        resistance = 1.0 / up.conveyance + 1.0 / down.conveyance
        jet = CONTRACTION * area * opened
        k = 2.0 * GRAVITY * jet * jet
        discharge = 0.0
        if k > 0.0:
            drive = k * abs(difference)
            discharge = 2.0 * drive / (k * resistance + sqrt(k * resistance * (k * resistance) + 4.0 * drive))
        if difference < 0.0:
            discharge = -discharge

        up_level = up.level + (up.discharge - discharge) / up.conveyance
        down_level = down.level + (down.discharge + discharge) / down.conveyance
        me.send("up_out", up.amount(up_level, discharge, me.delta))
        me.send("down_out", down.amount(down_level, -discharge, me.delta))
