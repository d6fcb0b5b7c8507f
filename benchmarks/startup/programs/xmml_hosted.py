"""A member of the ring, an xMML class that shares a process: an empty message out of each out port, one into each in
port."""

import arrival

import xmml


class Member(xmml.Submodel):
    def run(self) -> None:
        me = self.me
        ports = int(me.param("ports", int))
        while me.reuse():
            for _ in me.steps():
                for port in range(ports):
                    me.send(f"out{port}")
                for port in range(ports):
                    me.receive(f"in{port}")
                arrival.received(me.name)
