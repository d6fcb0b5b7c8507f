"""A member of the ring, an xMML submodel: an empty message out of each out port, one into each in port."""

import sys

import arrival

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for _ in me.steps():
            for port in range(int(sys.argv[1])):
                me.send(f"out{port}")
            for port in range(int(sys.argv[1])):
                me.receive(f"in{port}")
            arrival.received(me.name)
