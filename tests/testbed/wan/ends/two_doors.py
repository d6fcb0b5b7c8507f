"""A coordinator, and an instance that receives one value from each of so many others, with doors at these ports.

two_doors.py HOST COORDINATOR_PORT INSTANCE_PORT SECRET_FILE SENDERS

Writes the address of the coordinator, and then a line for each value that has come. Goes on until it is killed.
"""

import os
import sys
import threading

from xmml_native import Coordinator

import xmml

host, port, instance_port, secret_file = sys.argv[1:5]
senders = int(sys.argv[5])


def shape(name: str, port: str, direction: str, operator: str, conduits: list[dict[str, object]]) -> dict[str, object]:
    """Return what the coordinator must know of an instance."""
    ports = [
        {"name": port.format(number), "direction": direction, "operator": operator, "copies": 0}
        for number in range(len(conduits))
    ]
    steps = {"check_order": False, "steps": 1, "until": False, "delta_s": 1.0, "total_s": 1.0}
    named = {"name": name, "kind": "submodel", "index": 0, "count": 1, "params": {}, "ports": ports}
    return {**named, **steps, "conduits": conduits}


conduits: list[dict[str, object]] = [
    {
        "id": number + 1,
        "name": f"far{number}.out0 -> near.in{number}",
        "sender": f"far{number}",
        "sender_port": "out0",
        "receiver": "near",
        "receiver_port": f"in{number}",
        "sender_copy": None,
        "receiver_copy": None,
        "capacity": 8,
        "byte_budget": 1 << 20,
        "methods": ["tcp"],
        "sender_filters": [],
        "receiver_filters": [],
    }
    for number in range(senders)
]
with open(secret_file) as file:
    coordinator = Coordinator("flooded", bytes.fromhex(file.read()), f"{host}:{port}")
coordinator.define(shape("near", "in{}", "in", "S", conduits))
for number, conduit in enumerate(conduits):
    coordinator.define(shape(f"far{number}", "out{}", "out", "Oi", [conduit]))
threading.Thread(target=lambda: [coordinator.wait_events(1.0) for _ in iter(int, 1)], daemon=True).start()
(address,) = (each for each in coordinator.addresses if each.startswith("tcp:"))
os.environ |= {
    "XMML_INSTANCE": "near",
    "XMML_COORDINATOR": address,
    "XMML_SECRET_FILE": secret_file,
    "XMML_LISTEN": f"{host}:{instance_port}",
}
with xmml.Instance() as me:
    print(address, flush=True)
    me.reuse()
    for number in range(senders):
        me.receive(f"in{number}")
        print(number, flush=True)
# The last sender is far away, and has yet to leave.
threading.Event().wait()
