"""A program of a run that was taken over: it speaks for the run, and harms the memory of no other process.

It has joined as it should, and its messages pass. Then it writes nonsense into every connection that it has, ends them
and lives on, or writes nonsense all over the memory that it shares. The run ends and names it, and nobody waits for it.
The tests `hostile` and `scribbling` of native/core change every field of every frame, and write at random.
"""

from __future__ import annotations

import re

import pytest
from faulty_models import FAULT, RECEIVE, Models
from forged_report import FORGE_REPORT
from measured import Record

SHARED = "writes nonsense into the memory that it shares"
#: What the program does amid its steps.
ATTACKS = {
    "writes nonsense into its connections": """
    for each in os.listdir("/proc/self/fd"):
        if "socket:" in link(each):
            send(int(each), b"\\xff" * 4096)
""",
    "writes zeros into its connections": """
    for each in os.listdir("/proc/self/fd"):
        if "socket:" in link(each):
            send(int(each), bytes(4096))
""",
    "ends its connections and lives on": """
    for each in os.listdir("/proc/self/fd"):
        if "socket:" in link(each):
            os.dup2(os.open("/dev/null", os.O_RDWR), int(each))
""",
    "leaves without a word": """
    os._exit(0)
""",
    SHARED: """
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "r+b", buffering=0) as memory:
        for line in maps:
            if "memfd:" in line and "w" in line.split()[1]:
                first, last = (int(number, 16) for number in line.split()[0].split("-"))
                memory.seek(first)
                memory.write(os.urandom(last - first))
""",
}
TAKEN_OVER = (
    FAULT
    + """import socket, sys, time, xmml
def link(each):
    try:
        return os.readlink(f"/proc/self/fd/{each}")
    except OSError:
        return ""
def send(each, data):
    try:
        socket.socket(fileno=os.dup(each)).send(data, socket.MSG_DONTWAIT)
    except OSError:
        pass
def attack():
    fault()
"""
)
PROGRAM = """
with xmml.Instance() as me:
    while me.reuse():
        for number, t in enumerate(me.steps()):
            if number == 20:
                attack()
            me.send("o", t)
"""


@pytest.mark.parametrize(
    ("attack", "method"),
    [
        (attack, method)
        for attack in ATTACKS
        for method in ("tcp", "unix", "shm")
        if attack != SHARED or method == "shm"
    ],
)
def test_the_run_ends_and_names_it(models: Models, attack: str, method: str, record_property: Record) -> None:
    program = TAKEN_OVER + ATTACKS[attack] + PROGRAM
    run = f'run:methods="{method}" run:capacity="1"'  # so the connection stands when it attacks
    ended = models.run(models.write({"a": program, "b": RECEIVE}, steps=100, run=run))
    ended.check(4)
    assert re.search(r"\ba( failed|: what it sent)", ended.last_line), "whoever notices it names it"
    record_property("named_after_s", ended.seconds_after_fault)


def test_a_report_beyond_all_numbers_ends_the_run_and_names_who_has_said_it(models: Models) -> None:
    attack = "    forge_report()\n    time.sleep(600)\n"
    program = FORGE_REPORT + TAKEN_OVER + attack + PROGRAM
    ended = models.run(models.write({"a": program, "b": RECEIVE}, steps=100, run='run:capacity="1"'))
    ended.check(5, "a at local has reported what xmml-run does not understand: epoch of 'waiting' has the wrong type")
    assert "Traceback" not in ended.err
