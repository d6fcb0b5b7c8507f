"""A large array from one port to several receivers on one host lies in memory once; none changes what others see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_runs import RunModel

MODULE = '''import json

import numpy as np

import xmml


def place(address):
    """The file behind an address of this process, and where in it; none for memory of its own."""
    for line in open("/proc/self/maps"):
        columns = line.split()
        start, end = (int(number, 16) for number in columns[0].split("-"))
        if start <= address < end:
            return [int(columns[4]), int(columns[2], 16) + address - start] if "memfd:" in line else None


class Sender(xmml.Submodel):
    def run(self):
        while self.me.reuse():
            for number in self.me.steps():
                mine = np.full(200_000, number, dtype=np.float64)
                self.me.send("o", mine)
                mine[:] = -1.0  # it is the sender's own again


class Reader(xmml.Submodel):
    def run(self):
        kept = []  # so that no memory is used twice
        while self.me.reuse():
            for _ in self.me.steps():
                kept.append(self.me.receive("i").data)
        for number, array in enumerate(kept):
            try:
                array += 1.0
            except ValueError:
                own = array.copy()
                own += 1.0
            told = {
                "address": array.__array_interface__["data"][0],
                "place": place(array.__array_interface__["data"][0]),
                "read_only": array.__array_interface__["data"][1],
                "right": bool((array == number).all()),
            }
            print(json.dumps(told))
'''

STEPS = 5
READERS = "bcd"


def seen_by_each(folder: Path, run_model: RunModel, hosts: str) -> list[list[dict[str, Any]]]:
    """For each message, what each receiver says about it."""
    folder.mkdir(parents=True)
    (folder / "parts.py").write_text(MODULE)
    readers = "".join(f'<instance id="{name}" submodel="Reader" init="yes"/>' for name in READERS)
    # With room for one message the sender waits until all are connected.
    couplings = "".join(f'<coupling from="a.o" to="{name}.i" run:capacity="1"/>' for name in READERS)
    scale = f'<timescale delta="1 s" total="{STEPS} s"/>'
    (folder / "model.xmml").write_text(
        '<model id="fan" xmml_version="0.4" xmlns="http://www.mapper-project.eu/xmml" xmlns:run="urn:xmml:run:1">'
        f'<definitions><submodel id="Sender" class="parts:Sender">{scale}'
        '<ports><out id="o" operator="Oi"/></ports></submodel>'
        f'<submodel id="Reader" class="parts:Reader">{scale}<ports><in id="i" operator="S"/></ports></submodel>'
        '</definitions><topology><instance id="a" submodel="Sender" init="yes"/>'
        f"{readers}{couplings}</topology></model>"
    )
    run = run_model(folder, "--hosts", hosts)
    lines = [[json.loads(line) for line in run.lines(name)] for name in READERS]
    assert [len(told) for told in lines] == [STEPS] * len(READERS)
    return [list(told) for told in zip(*lines, strict=True)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "as written/fan"


def test_receivers_in_one_process_see_one_array_that_none_may_write_to(folder: Path, run_model: RunModel) -> None:
    messages = seen_by_each(folder, run_model, "1")
    assert all(told["right"] and told["read_only"] for message in messages for told in message)
    addresses = [{told["address"] for told in message} for message in messages]
    assert [len(same) for same in addresses] == [1] * STEPS
    assert len(set.union(*addresses)) == STEPS


def test_receivers_in_processes_of_their_own_see_one_place_in_memory(folder: Path, run_model: RunModel) -> None:
    *_, last = seen_by_each(folder, run_model, "0")
    # Who connects late may have a copy of its own of what was sent before that.
    assert all(told["right"] and told["read_only"] for told in last)
    assert last[0]["place"] is not None
    assert all(told["place"] == last[0]["place"] for told in last)
