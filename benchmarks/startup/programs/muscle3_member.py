"""A member of the ring, a MUSCLE3 component: an empty message out of each out port, one into each in port."""

import os
import sys

import arrival
from libmuscle import Instance, Message

instance = Instance()
while instance.reuse_instance():
    for port in range(int(sys.argv[1])):
        instance.send(f"out{port}", Message(0.0))
    for port in range(int(sys.argv[1])):
        instance.receive(f"in{port}")
    arrival.received(os.environ["MUSCLE_INSTANCE"])
