"""Puts objects with an attribute of every type, or prints what it takes. See ../test_pools_in_every_language.py.

An instance of the name `idle` puts nothing, and leaves when all readers have seen that.
"""

import datetime
import struct

import numpy as np

import xmml

OF_EVERY_TYPE = {
    "truth": True,
    "whole": -3,
    "natural": 2**53 + 1,
    "number": 0.1,
    "text": 'say "µ"',
    "level": "ml",
    "moment": datetime.datetime(2026, 11, 27, 12, 30, 0, 250001, tzinfo=datetime.UTC),
    "wholes": [1, -2, 2**53 + 1],
    "numbers": [0.1, -2.5],
    "raw": "raw µ".encode(),
    "absent": None,
}
KINDS = {xmml.PortError: "port", xmml.DataTypeError: "type", xmml.Error: "usage", KeyError: "usage"}


def print_error(what, call):
    try:
        call()
        print(f"{what}: nothing")
    except (xmml.Error, KeyError) as error:
        print(f"{what}: {KINDS[type(error)]}: {error.args[0]}")


def bits(number):
    return struct.pack(">d", number).hex().upper()


def print_object(taken):
    parts = [taken["sys.instance"], ",".join(taken.attributes)]
    if taken.get("truth") is None:
        assert taken.data is None
        parts += ["whole", taken["whole"], "kind 0"]
        if "sys.group" in taken:
            parts += ["group", taken["sys.group"], "follow", taken["sys.follow"]]
        print(*parts)
        return
    parts += ["truth", str(taken["truth"]).lower(), "whole", taken["whole"], "natural", taken["natural"]]
    parts += ["number", bits(taken["number"]), "text", taken["text"].encode().hex().upper(), "level", taken["level"]]
    parts += ["moment", taken["moment"].isoformat().replace("+00:00", "Z"), "wholes", *taken["wholes"]]
    parts += ["numbers", *map(bits, taken["numbers"]), "raw", taken["raw"].hex().upper()]
    print(*parts, "elements", int(taken.data[0, 1]), int(taken.data[1, 0]))


def write_objects(me):
    print("readers", me.put("objects", np.arange(6.0).reshape(2, 3), **OF_EVERY_TYPE))
    objects = me.out("objects")
    objects.put(whole=4)
    print_error("unknown", lambda: objects.put(whloe=4))
    print_error("mistyped", lambda: me.put("objects", whole="x"))
    print("nowhere", me.put("nowhere"))
    print("wanted", me.wanted("objects", whole=4), objects.wanted(whole=5))
    print_error("unwanted", lambda: objects.wanted(whloe=4))


def write_groups(me):
    objects = me.out("objects")
    try:
        with objects.group(whole=5) as group:
            group.put()
            raise ValueError
    except ValueError:
        pass
    with me.group("objects", whole=6) as group:
        print_error("second", objects.group().__enter__)
        group.put()
        group.put(whole=7)
    print_error("over", group.put)
    print_error("common", lambda: me.group("objects", whloe=4).__enter__())


def read_objects(me):
    try:
        me.take("later", timeout=0.01)
    except xmml.ReceiveTimeoutError:
        print("timed out")
    me.put("go")
    me.end("go")
    print_error("late", me.out("go").put)
    if me.take("later") is None:
        print("ended")
    print_error("nowhere", lambda: me.take("nowhere"))
    for taken in me.in_("objects").objects():
        print_object(taken)
        print_error("unknown", lambda taken=taken: taken["truht"])


with xmml.Instance() as me:
    while me.reuse():
        if me.name == "idle":
            print("readers that go", sum(1 for _ in me.objects("go")))
        elif me.name.startswith("writer"):
            write_objects(me)
            write_groups(me)
        else:
            read_objects(me)
