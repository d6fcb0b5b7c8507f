"""Takes fields, and prints where each is from."""

import xmml

with xmml.Instance() as me:
    while me.reuse():
        for field in me.objects("fields"):
            assert field.data[1, 2] == field["step"] + 5
            print(field.get("sys.index", 0), field["step"], field["param"])
