"""Runs that stop because everyone waits for everyone."""

from __future__ import annotations

from faulty_models import SEND, Models
from gates import awaits

TWO_WAYS = '<out id="o" operator="Oi"/><in id="i" operator="S"/>'
BOTH = {"a": TWO_WAYS, "b": TWO_WAYS}
CROSSED = (("a.o", "b.i"), ("b.o", "a.i"))
#: Receives before it sends, which `run:order="free"` allows.
RECEIVES_FIRST = """import xmml
with xmml.Instance() as me:
    me.reuse()
    for t in me.steps():
        me.receive('i')
        me.send('o', t)
"""


def test_two_that_receive_before_they_send(models: Models) -> None:
    model = models.write({"a": RECEIVES_FIRST, "b": RECEIVES_FIRST}, ports=BOTH, couplings=CROSSED)
    model.write_text(model.read_text().replace("<instance ", '<instance run:order="free" '))
    ended = models.run(model)
    ended.check(6, "deadlock", "a waits at i for the first message of b.o", "b waits at i for the first message of a.o")


def test_a_deadlock_after_some_messages_says_which_message_is_missing(models: Models) -> None:
    program = RECEIVES_FIRST.replace("        me.receive('i')\n", "        me.receive('i') if t else None\n").replace(
        "me.send('o', t)", "me.send('o', t) if t < 2 else None"
    )
    model = models.write({"a": program, "b": program}, ports=BOTH, couplings=CROSSED, steps=6)
    model.write_text(model.read_text().replace("<instance ", '<instance run:order="free" '))
    models.run(model).check(6, "deadlock", "for message 3 of")


def test_a_conduit_too_small_for_the_model_grows(models: Models) -> None:
    """`a` sends everything on `o`, then everything on `p`; `b` wants everything of `p` first."""
    ports = {
        "a": '<out id="o" operator="Oi"/><out id="p" operator="Oi"/>',
        "b": '<in id="i" operator="S"/><in id="j" operator="S"/>',
    }
    sends = "import xmml\nwith xmml.Instance() as me:\n" + "".join(
        f"    for k in range(40):\n        me.send('{port}', k)\n" for port in "op"
    )
    receives = "import xmml\nwith xmml.Instance() as me:\n" + "".join(
        f"    for k in range(40):\n        assert me.receive('{port}').data == k\n" for port in "ji"
    )
    model = models.write(
        {"a": sends, "b": receives}, ports=ports, couplings=(("a.o", "b.i"), ("a.p", "b.j")), run='run:capacity="2"'
    )
    model.write_text(model.read_text().replace("<instance ", '<instance run:order="free" '))
    ended = models.run(model)
    assert ended.status == 0, ended.err
    assert "a.o -> b.i was too small for this model and grew" in ended.err


def test_a_slow_partner_is_no_deadlock(models: Models) -> None:
    go_on = models.folder / "go-on"
    slow = SEND.replace('me.send("o", t)', f'{awaits(go_on)}\n            me.send("o", t)')
    receive = SEND.replace('me.send("o", t)', 'me.receive("i")')
    going = models.start(models.write({"a": slow, "b": receive}))
    going.wait_for_event("waiting")
    go_on.touch()
    ended = going.end()
    assert ended.status == 0, ended.err


def test_a_conduit_too_small_for_large_messages_grows(models: Models) -> None:
    """The bytes that wait are more than the budget of a conduit, the messages fewer than its capacity."""
    ports = {
        "a": '<out id="o" operator="Oi"/><out id="p" operator="Oi"/>',
        "b": '<in id="i" operator="S"/><in id="j" operator="S"/>',
    }
    send = "    for k in range(3):\n        me.send('{}', numpy.full(5_000_000, float(k)))\n"
    receive = "    for k in range(3):\n        assert me.receive('{}').data[-1] == k\n"
    head = "import numpy, xmml\nwith xmml.Instance() as me:\n"
    programs = {"a": head + send.format("o") + send.format("p"), "b": head + receive.format("j") + receive.format("i")}
    model = models.write(programs, ports=ports, couplings=(("a.o", "b.i"), ("a.p", "b.j")))
    model.write_text(model.read_text().replace("<instance ", '<instance run:order="free" '))
    ended = models.run(model)
    assert ended.status == 0, ended.err


def test_a_mapper_that_another_sender_will_end_is_no_deadlock(models: Models) -> None:
    """`a` and the mapper wait for each other, but the mapper also for `b`, which ends without a message."""
    go_on = models.folder / "go-on"
    head = "import xmml\nwith xmml.Instance() as me:\n    me.reuse()\n"
    programs = {
        "a": head + "    assert me.receive_or_end('i') is None\n",
        "b": head + f"    {awaits(go_on)}\n",
        "m": head + "    assert False, 'nothing to map'\n",
    }
    programs["m"] = programs["m"].replace("me.reuse()\n", "while me.reuse():\n    ")
    ports = {
        "a": '<in id="i" operator="S"/><out id="o" operator="Oi"/>',
        "b": '<out id="o" operator="Oi"/>',
        "m": '<in id="i"/><in id="j"/><out id="o"/>',
    }
    couplings = (("a.o", "m.i"), ("b.o", "m.j"), ("m.o", "a.i"))
    model = models.write(programs, ports=ports, couplings=couplings)
    text = model.read_text().replace(
        '<submodel id="M"><timescale delta="1 s" total="3 s"/>', '<mapper id="M" type="fan-in">'
    )
    before, mapper, after = text.partition('<mapper id="M" type="fan-in">')
    text = before + mapper + after.replace("</submodel>", "</mapper>", 1).replace('submodel="M"', 'mapper="M"')
    model.write_text(text.replace("<instance ", '<instance run:order="free" '))
    going = models.start(model)
    going.wait_for_event("waiting", 2)
    go_on.touch()
    ended = going.end()
    assert ended.status == 0, ended.err
